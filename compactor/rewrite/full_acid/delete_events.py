"""The delete events of one file number, however many, in bounded memory.

A few events stay in memory. Many are sorted in runs on disk, and the runs are merged into one sorted file. A lookup reads
only its range of keys. The memory needed is that of one run, whatever the number of events or delete deltas.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import Types
from compactor.rows.delete_files import DeleteEvents, stored_events
from compactor.rows.inputs import Input
from compactor.rows.keys import KEY, KeyBlock, Mask, Numbers, is_sorted, row_id_at, sort_order, valid_mask
from compactor.rows.remote_source import LOCAL
from compactor.storage.protocol import Storage

RUN = 1 << 17  #: events that are held and sorted at once, 28 bytes each
FAN_IN = 16  #: runs that are merged at once
BLOCK = RUN // FAN_IN  #: events that are read at once
EVENT = np.dtype([("write_id", "<i8"), ("bucket", "<i4"), ("row_id", "<i8"), ("current", "<i8")])
_KEY_FIELDS = ["write_id", "bucket", "row_id"]
Events: TypeAlias = npt.NDArray[np.void]


class Deletes(Protocol):
    """The delete events that decide which rows of a stripe are dropped."""

    def any_between(self, low: RowId, high: RowId) -> bool:
        """Returns true if the key of an event lies in ``low..high``, both inclusive."""

    def hits(self, block: KeyBlock) -> Mask:
        """Returns a mask of the rows of ``block`` that are deleted."""

    def row_ids(self, first: RowId, last: RowId) -> Numbers:
        """Returns the deleted row numbers in ``first..last``, keys of one write ID and bucket.

        Some may repeat.
        """


class SortedEvents:
    """Events ``start..stop`` of a sorted sequence, in memory or in an unlinked file."""

    def __init__(self, store: _Store, start: int, stop: int) -> None:
        self._store = store
        self._start, self._stop = start, stop

    def __len__(self) -> int:
        return self._stop - self._start

    def split(self, first: WriteId) -> tuple[SortedEvents, SortedEvents]:
        """Splits the events into those for rows inserted before write ID ``first`` and those for later rows."""
        low, high = self._start, self._stop
        while low < high:
            middle = (low + high) // 2
            if self._store.part(middle, middle + 1).keys["write_id"][0] < first:
                low = middle + 1
            else:
                high = middle
        return SortedEvents(self._store, self._start, low), SortedEvents(self._store, low, self._stop)

    def part(self, start: int, stop: int) -> DeleteEvents:
        """Returns the events from position ``start`` to before ``stop``."""
        return self._store.part(self._start + start, min(self._start + stop, self._stop))

    def any_between(self, low: RowId, high: RowId) -> bool:
        """Returns true if the key of an event lies in ``low..high``, both inclusive."""
        return len(self) > 0 and any(part.any_between(low, high) for part in self._blocks_near(low, high))

    def hits(self, block: KeyBlock) -> Mask:
        """Returns a mask of the rows of ``block`` that are deleted."""
        mask: Mask = np.zeros(len(block), dtype=np.bool_)
        if len(block) and len(self):
            ends = block if is_sorted(block) else block[sort_order(block)[[0, -1]]]
            for part in self._blocks_near(row_id_at(ends, 0), row_id_at(ends, len(ends) - 1)):
                mask |= part.hits(block)
        return mask

    def row_ids(self, first: RowId, last: RowId) -> Numbers:
        """Returns the deleted row numbers in ``first..last``, keys of one write ID and bucket.

        Some may repeat.
        """
        row_ids = [part.row_ids(first, last) for part in self._blocks_near(first, last)]
        return np.concatenate(row_ids) if row_ids else np.empty(0, dtype=np.int64)

    def newest(self, block: KeyBlock) -> Numbers:
        """Returns for each row of ``block`` the largest write ID of its events; -1 without events."""
        newest: Numbers = np.full(len(block), -1, dtype=np.int64)
        if len(block) and len(self):
            ends = block if is_sorted(block) else block[sort_order(block)[[0, -1]]]
            for part in self._blocks_near(row_id_at(ends, 0), row_id_at(ends, len(ends) - 1)):
                np.maximum(newest, part.newest(block), out=newest)
        return newest

    def _blocks_near(self, low: RowId, high: RowId) -> Iterator[DeleteEvents]:
        """Yields the blocks of events that may overlap ``low..high``."""
        firsts = self._store.firsts  # the first key of a block may also be the last key of the block before
        for number in range(max(0, bisect_left(firsts, low) - 1), bisect_right(firsts, high)):
            first = number * BLOCK
            start, stop = max(self._start - first, 0), min(self._stop - first, BLOCK)
            if start < stop:
                block = self._store.block(number)
                yield DeleteEvents(keys=block.keys[start:stop], current=block.current[start:stop])


class _Store:
    """A sorted sequence of events, in memory or in an open file.

    ``firsts`` is the first key of every block.
    """

    def __init__(self, events: Events | int, length: int) -> None:
        self._events = events
        self.length = length
        self.firsts = [row_id_at(self.part(at, at + 1).keys, 0) for at in range(0, length, BLOCK)]
        self._last: tuple[int, DeleteEvents] | None = None

    def part(self, start: int, stop: int) -> DeleteEvents:
        events = _read(self._events, start, stop) if isinstance(self._events, int) else self._events[start:stop]
        return DeleteEvents(keys=_keys(events), current=events["current"].copy())

    def block(self, number: int) -> DeleteEvents:
        """Reads a block. The most recent one stays in memory, since stripes are looked up in order."""
        if self._last is None or self._last[0] != number:
            self._last = number, self.part(number * BLOCK, min(self.length, (number + 1) * BLOCK))
        return self._last[1]

    def __del__(self) -> None:
        if isinstance(self._events, int):
            os.close(self._events)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedEvents:
    """The events that the snapshot sees. ``total`` counts all events.

    ``like`` is the tail of the first file. ``types`` are those of the newest file with a whole row.
    """

    events: SortedEvents
    total: int = 0
    invisible: int = 0
    like: Tail | None = None
    types: Types | None = None


def load_delete_events(
    location: str,
    sources: Sequence[Input],
    number: int,
    write_ids: ValidWriteIdList,
    scratch: str,
    storage: Storage = LOCAL,
) -> LoadedEvents:
    """Loads the delete events in these files, with one file open at a time.

    Args:
        scratch: a directory for events that memory does not hold; nothing remains in it.

    Raises:
        BadFile: a file cannot be read.
        NotLossless: a delete delta holds something other than delete events.
    """
    sorter = EventSorter(scratch)
    total = invisible = 0
    like: Tail | None = None
    types: Types | None = None
    for tail, stored in stored_events(location, sources, number, storage):
        like = like or tail
        types = tail.types if len(tail.types.row) > 1 else types
        for keys in stored:
            valid = valid_mask(write_ids, keys.current)
            total += len(valid)
            invisible += int(np.count_nonzero(~valid))
            sorter.add(pack_events(keys.block[valid], keys.current[valid]))
    return LoadedEvents(events=sorter.finish(), total=total, invisible=invisible, like=like, types=types)


class EventSorter:
    """Sorts any number of events; runs are unlinked files in ``scratch``."""

    def __init__(self, scratch: str) -> None:
        self._scratch = scratch
        self._buffered: list[Events] = []
        self._count = 0
        self._runs: list[int] = []

    def add(self, events: Events) -> None:
        """Adds events. Whenever ``RUN`` of them are in memory, they are sorted and written to disk."""
        for start in range(0, len(events), RUN):
            part = events[start : start + RUN]
            if self._count + len(part) > RUN:
                self._spill()
            self._buffered.append(part)
            self._count += len(part)

    def finish(self) -> SortedEvents:
        """Returns all added events, sorted."""
        if not self._runs:
            events = self._take_sorted()
            return SortedEvents(_Store(events, len(events)), 0, len(events))
        self._spill()
        while len(self._runs) > 1:
            group, self._runs = self._runs[:FAN_IN], self._runs[FAN_IN:]
            self._runs.append(self._merge_runs(group))
        (run,) = self._runs
        self._runs = []
        count = os.fstat(run).st_size // EVENT.itemsize
        return SortedEvents(_Store(run, count), 0, count)

    def _take_sorted(self) -> Events:
        events = np.concatenate(self._buffered) if self._buffered else np.empty(0, EVENT)
        self._buffered, self._count = [], 0
        return _sort_events(events)

    def _spill(self) -> None:
        if self._count:
            run = self._new_file()
            _write(run, self._take_sorted())
            self._runs.append(run)

    def _merge_runs(self, runs: Sequence[int]) -> int:
        target = self._new_file()
        for events in _merge([_blocks(run) for run in runs]):
            _write(target, events)
        for run in runs:
            os.close(run)
        return target

    def _new_file(self) -> int:
        """Creates a file without a name, because others may create names in the scratch folder."""
        with tempfile.TemporaryFile(dir=self._scratch, buffering=0) as file:
            return os.dup(file.fileno())

    def __del__(self) -> None:
        for run in self._runs:
            os.close(run)


def _merge(runs: Sequence[Iterator[Events]]) -> Iterator[Events]:
    """Merges sorted runs, reading one block of each at a time."""
    buffers: dict[int, Events] = {}
    live = dict(enumerate(runs))
    while True:
        # 1. Fill the buffer of each run that has more blocks.
        for number in list(live):
            if number not in buffers:
                block = next(live[number], None)
                if block is None:
                    del live[number]
                else:
                    buffers[number] = block
        if not buffers:
            return
        # 2. Take the events up to the smallest last key of the buffers: no unread event can precede them.
        limit = min((row_id_at(buffers[n][_KEY_FIELDS], -1) for n in live), default=None)
        taken: list[Events] = []
        for number, block in list(buffers.items()):
            count = len(block) if limit is None else _up_to(block, limit)
            taken.append(block[:count])
            del buffers[number]
            if count < len(block):
                buffers[number] = block[count:]
        # 3. Sort what was taken.
        yield _sort_events(np.concatenate(taken))


def _up_to(events: Events, limit: RowId) -> int:
    """Counts the sorted events with a key not above ``limit``."""
    low, high = 0, len(events)
    for field, value in (("write_id", limit.write_id), ("bucket", limit.bucket)):
        column = events[field][low:high]
        below, up_to = np.searchsorted(column, value, side="left"), np.searchsorted(column, value, side="right")
        low, high = low + int(below), low + int(up_to)
    return low + int(np.searchsorted(events["row_id"][low:high], limit.row_id, side="right"))


def pack_events(block: KeyBlock, current: Any) -> Events:
    """Returns keys and deleting write IDs as one array of events."""
    events = np.empty(len(block), EVENT)
    for field in _KEY_FIELDS:
        events[field] = block[field]
    events["current"] = current
    return events


def _keys(events: Events) -> KeyBlock:
    block = np.empty(len(events), KEY)
    for field in _KEY_FIELDS:
        block[field] = events[field]
    return block


def _sort_events(events: Events) -> Events:
    block = _keys(events)
    return events if is_sorted(block) else events[sort_order(block)]


def _blocks(run: int) -> Iterator[Events]:
    place = 0
    while len(block := _read(run, place, place + BLOCK)):
        place += len(block)
        yield block


def _read(descriptor: int, start: int, stop: int) -> Events:
    missing, place, parts = (stop - start) * EVENT.itemsize, start * EVENT.itemsize, []
    while missing > 0 and (part := os.pread(descriptor, missing, place)):
        parts.append(part)
        place, missing = place + len(part), missing - len(part)
    return np.frombuffer(b"".join(parts), EVENT)


def _write(descriptor: int, events: Events) -> None:
    view = memoryview(events.tobytes())
    while view:
        view = view[os.write(descriptor, view) :]
