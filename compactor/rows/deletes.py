"""Delete events of one file number, ready to be matched against rows.

Readers apply the events in ``delete_delta_*/bucket_N`` to the rows in ``bucket_N`` only, whatever the bucket property
says; events for rows of another file are dead for every reader, and so they are here (PROTOCOL 1.3).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from compactor.acid.row_id import RowId
from compactor.rows.keys import KEY, KeyBlock, Mask, Numbers, is_sorted, order, row_id_at


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteEvents:
    """Sorted ``keys`` of deleted rows with the deleting write ID of each in ``current``."""

    keys: KeyBlock
    current: Numbers

    @classmethod
    def of(cls, blocks: Iterable[tuple[KeyBlock, Numbers]]) -> DeleteEvents:
        """All events of some blocks, whatever order they come in."""
        parts = list(blocks)
        keys = np.concatenate([k for k, _ in parts]) if parts else np.empty(0, dtype=KEY)
        current = np.concatenate([c for _, c in parts]) if parts else np.empty(0, dtype=np.int64)
        by_key = order(keys)
        return cls(keys=keys[by_key], current=current[by_key])

    def __len__(self) -> int:
        return len(self.keys)

    def part(self, start: int, stop: int) -> DeleteEvents:
        """The events at these places."""
        return DeleteEvents(keys=self.keys[start:stop], current=self.current[start:stop])

    def any_between(self, low: RowId, high: RowId) -> bool:
        """Whether an event's key lies in ``low..high``, both inclusive."""
        return self._position(low, after=False) < self._position(high, after=True)

    def _position(self, key: RowId, *, after: bool) -> int:
        """How many events come before ``key`` (``after``: or are it); three narrowing binary searches."""
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
        """Which rows of ``block`` are deleted."""
        mask: Mask = np.zeros(len(block), dtype=np.bool_)
        if not len(self.keys) or not len(block):
            return mask
        in_order = is_sorted(block)
        ends = block if in_order else block[order(block)[[0, -1]]]
        first, last = row_id_at(ends, 0), row_id_at(ends, len(ends) - 1)
        events = self.keys[self._position(first, after=False) : self._position(last, after=True)]
        if not len(events):
            return mask
        if not in_order or first[:2] != last[:2]:
            return _among(block, events)
        # One statement's rows: events between its first and its last row differ in the row number only.
        rows = block["row_id"]
        places = np.searchsorted(rows, events["row_id"])
        mask[places[rows[places] == events["row_id"]]] = True
        return mask

    def row_ids(self, first: RowId, last: RowId) -> Numbers:
        """The row numbers in ``first..last``, keys of one write ID and bucket, that are deleted; some several times."""
        found: Numbers = self.keys["row_id"][self._position(first, after=False) : self._position(last, after=True)]
        return found

    def newest(self, block: KeyBlock) -> Numbers:
        """The largest deleting write ID of the events that aim at each row of ``block``; -1 where there is none."""
        low, high = _ends(block)
        first, last = self._position(low, after=False), self._position(high, after=True)
        keys, current = self.keys[first:last], self.current[first:last]
        both = np.concatenate([keys, block])
        by_key = order(both)
        sorted_keys = both[by_key]
        begins = np.ones(len(both), dtype=np.bool_)
        begins[1:] = sorted_keys[1:] != sorted_keys[:-1]
        values = np.concatenate([current, np.full(len(block), -1, dtype=np.int64)])[by_key]
        largest = np.maximum.reduceat(values, np.flatnonzero(begins))[np.cumsum(begins) - 1]
        found: Numbers = np.empty(len(both), dtype=np.int64)
        found[by_key] = largest
        return found[len(keys) :]


def _ends(block: KeyBlock) -> tuple[RowId, RowId]:
    """The smallest and the largest key of a block that is not empty."""
    ends = block if is_sorted(block) else block[order(block)[[0, -1]]]
    return row_id_at(ends, 0), row_id_at(ends, len(ends) - 1)


def _among(block: KeyBlock, events: KeyBlock) -> Mask:
    """Which keys of ``block`` are also in ``events``: both sorted as one, so that equal ones stand side by side."""
    both = np.concatenate([events, block])
    by_key = order(both)
    keys = both[by_key]
    begins = np.ones(len(keys), dtype=np.bool_)
    begins[1:] = keys[1:] != keys[:-1]
    # The sort is stable: a group of equal keys with an event in it begins with that.
    deleted = (by_key[begins] < len(events))[np.cumsum(begins) - 1]
    mask: Mask = np.empty(len(both), dtype=np.bool_)
    mask[by_key] = deleted
    return mask[len(events) :]
