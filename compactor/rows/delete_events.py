"""Matches the delete events of one file number against rows.

Readers apply the events in ``delete_delta_*/bucket_N`` only to the rows in ``bucket_N``, whatever the bucket property says.
Events for rows of another file have no effect in any reader, and none here (PROTOCOL 1.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from compactor.acid.row_id import RowId
from compactor.rows.keys import KEY, KeyBlock, Mask, Numbers, is_sorted, row_id_at, sort_order


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEvents:
    """The sorted ``keys`` of deleted rows, with the deleting write ID of each in ``current``."""

    keys: KeyBlock
    current: Numbers

    @classmethod
    def from_blocks(cls, blocks: Iterable[tuple[KeyBlock, Numbers]]) -> DeleteEvents:
        """Returns all events of some blocks, which may be in any order."""
        parts = list(blocks)
        keys = np.concatenate([k for k, _ in parts]) if parts else np.empty(0, dtype=KEY)
        current = np.concatenate([c for _, c in parts]) if parts else np.empty(0, dtype=np.int64)
        by_key = sort_order(keys)
        return cls(keys=keys[by_key], current=current[by_key])

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, stop: int) -> DeleteEvents:
        """Returns the events from position ``start`` to before ``stop``."""
        return DeleteEvents(keys=self.keys[start:stop], current=self.current[start:stop])

    def any_between(self, low: RowId, high: RowId) -> bool:
        """Returns true if some event's key is in ``low..high``, both inclusive."""
        return self._position(low, after=False) < self._position(high, after=True)

    def _position(self, key: RowId, *, after: bool) -> int:
        """Returns the number of events before ``key`` (with ``after``, up to it), by binary searches."""
        low, high = 0, len(self.keys)
        for field, value in (("write_id", key.write_id), ("bucket", key.bucket)):
            column = self.keys[field][low:high]
            low, high = (
                low + int(np.searchsorted(column, value, side="left")),
                low + int(np.searchsorted(column, value, side="right")),
            )
        rows = self.keys["row_id"][low:high]
        return low + int(np.searchsorted(rows, key.row_id, side="right" if after else "left"))

    def hits(self, block: KeyBlock) -> Mask:
        """Returns the mask of the rows of ``block`` that are deleted."""
        mask: Mask = np.zeros(len(block), dtype=np.bool_)
        if not len(self.keys) or not len(block):
            return mask
        in_order = is_sorted(block)
        ends = block if in_order else block[sort_order(block)[[0, -1]]]
        first, last = row_id_at(ends, 0), row_id_at(ends, len(ends) - 1)
        events = self.keys[self._position(first, after=False) : self._position(last, after=True)]
        if not len(events):
            return mask
        if not in_order or first[:2] != last[:2]:
            return _among(block, events)
        # These are one statement's rows: events between its first and last row differ only in the row number.
        rows = block["row_id"]
        places = np.searchsorted(rows, events["row_id"])
        mask[places[rows[places] == events["row_id"]]] = True
        return mask

    def row_ids(self, first: RowId, last: RowId) -> Numbers:
        """Returns the deleted row numbers in ``first..last``, keys of one write ID and bucket.

        Some may repeat.
        """
        numbers: Numbers = self.keys["row_id"][self._position(first, after=False) : self._position(last, after=True)]
        return numbers

    def newest(self, block: KeyBlock) -> Numbers:
        """Returns for each row of ``block`` the largest write ID of its events; -1 without events."""
        low, high = _ends(block)
        first, last = self._position(low, after=False), self._position(high, after=True)
        keys, current = self.keys[first:last], self.current[first:last]
        both = np.concatenate([keys, block])
        by_key = sort_order(both)
        sorted_keys = both[by_key]
        begins = np.ones(len(both), dtype=np.bool_)
        begins[1:] = sorted_keys[1:] != sorted_keys[:-1]
        values = np.concatenate([current, np.full(len(block), -1, dtype=np.int64)])[by_key]
        largest = np.maximum.reduceat(values, np.flatnonzero(begins))[np.cumsum(begins) - 1]
        largest_by_row: Numbers = np.empty(len(both), dtype=np.int64)
        largest_by_row[by_key] = largest
        return largest_by_row[len(keys) :]


def _ends(block: KeyBlock) -> tuple[RowId, RowId]:
    """Returns the smallest and the largest key of a block that is not empty."""
    ends = block if is_sorted(block) else block[sort_order(block)[[0, -1]]]
    return row_id_at(ends, 0), row_id_at(ends, len(ends) - 1)


def _among(block: KeyBlock, events: KeyBlock) -> Mask:
    """Returns the mask of the keys of ``block`` that are in ``events``, by sorting both together."""
    both = np.concatenate([events, block])
    by_key = sort_order(both)
    keys = both[by_key]
    begins = np.ones(len(keys), dtype=np.bool_)
    begins[1:] = keys[1:] != keys[:-1]
    # The sort is stable: a group of equal keys that has an event begins with it.
    deleted = (by_key[begins] < len(events))[np.cumsum(begins) - 1]
    mask: Mask = np.empty(len(both), dtype=np.bool_)
    mask[by_key] = deleted
    return mask[len(events) :]
