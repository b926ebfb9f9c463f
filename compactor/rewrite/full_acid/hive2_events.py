"""Decides which event of a key counts in Hive 2's files (ACID version 1).

Insert, update and delete events of a row have the same key; update and delete events lie between rows or, with split
update, in delete deltas. A reader shows the newest visible event of a key, unless it deletes (Hive 2's
``OrcRawRecordMerger``: originalTransaction, bucket and rowId ascending, currentTransaction descending, the first counts).
So a row is superseded if an update or delete event of its key is newer, and only those events must be known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from compactor.base.errors import NotLossless
from compactor.orc.format.tail import key_statistics
from compactor.rewrite.full_acid.delete_events import BLOCK, EventSorter, SortedEvents, events_of
from compactor.rewrite.full_acid.stripe_choice import SupersededRows
from compactor.rewrite.plan.unit import Unit
from compactor.rows.acid_file import AcidFile, Keys, open_files, stripe_keys
from compactor.rows.keys import DELETE, INSERT, UPDATE, Mask, sort_order, valid_mask
from compactor.storage.protocol import Storage


def load_changes(unit: Unit, scratch: str, storage: Storage) -> SortedEvents:
    """Loads the visible update and delete events of all the unit's files, in bounded memory.

    Raises:
        BadFile: a file cannot be read.
        NotLossless: an operation is none of ACID's, or two statements of one transaction changed the same row.
    """
    sorter = EventSorter(scratch)
    for source in (*unit.inserts, *unit.deletes):
        with open_files(unit.location, [source], unit.number, storage, plain_buckets=True) as files:
            for file in files:
                for found in _with_changes(file):
                    changes = valid_mask(unit.write_ids, found.current) & (found.operation != INSERT)
                    sorter.add(events_of(found.block[changes], found.current[changes]))
    changed = sorter.done()
    _must_be_changed_once(unit, changed)
    return changed


def superseded_by(changed: SortedEvents) -> SupersededRows:
    """Returns the function that marks the rows that ``changed`` supersedes."""

    def superseded(file: AcidFile, found: Keys) -> Mask:
        newest = changed.newest(found.block)
        inserted = found.operation == INSERT  # a statement may change a row that its own transaction inserted
        later = (newest > found.current) | (inserted & (newest == found.current))
        mask: Mask = later | (found.operation == DELETE)
        return mask

    return superseded


def _with_changes(file: AcidFile) -> Iterator[Keys]:
    """Yields the keys of stripes that may hold more than inserts."""
    if file.is_raw:
        return
    for stripe in range(len(file.tail.stripes)):
        known = key_statistics(file.tail, stripe)
        if known is not None and known.operation.minimum == known.operation.maximum == INSERT:
            continue
        for found in stripe_keys(file, stripe):
            if np.any((found.operation < INSERT) | (found.operation > DELETE)):
                raise NotLossless(
                    f"{file.path}: holds operations other than {INSERT}, {UPDATE} and {DELETE}; restore the file"
                )
            yield found


def _must_be_changed_once(unit: Unit, changed: SortedEvents) -> None:
    """Checks that each transaction changed a row at most once: the order of two changes depends on statements that a
    compaction may have merged.

    Raises:
        NotLossless: a transaction changed a row twice.
    """
    keys = np.empty(0, dtype=changed.part(0, 0).keys.dtype)
    current = np.empty(0, dtype=np.int64)
    for start in range(0, len(changed), BLOCK):
        part = changed.part(start, start + BLOCK)
        keys, current = np.concatenate([keys, part.keys]), np.concatenate([current, part.current])
        by_time = np.argsort(current, kind="stable")
        by_key = by_time[sort_order(keys[by_time])]
        keys, current = keys[by_key], current[by_key]
        twice = np.flatnonzero((keys[1:] == keys[:-1]) & (current[1:] == current[:-1]))
        if len(twice):
            raise NotLossless(
                f"{unit.location}, bucket {unit.number}: transaction {int(current[twice[0]])} changed the row "
                f"{keys[twice[0]].item()} twice, and which change counts is not known; let Hive 2 compact it"
            )
        last = keys == keys[-1]  # the next block may continue with this key
        keys, current = keys[last], current[last]
