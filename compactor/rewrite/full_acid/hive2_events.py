"""Decides which event of a key counts in Hive 2's files (ACID version 1).

Insert, update and delete events of a row share one key. Update and delete events lie between rows or, with split update,
in delete deltas. A reader shows the newest visible event of a key, unless it is a delete event (Hive 2's
``OrcRawRecordMerger``: originalTransaction, bucket and rowId ascending, currentTransaction descending, the first counts).
So a newer update or delete event of the same key supersedes a row. Only such events must be known beforehand.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from compactor.base.errors import NotLossless
from compactor.orc.format.tail import key_statistics
from compactor.rewrite.full_acid.delete_events import BLOCK, EventSorter, SortedEvents, pack_events
from compactor.rewrite.full_acid.stripe_choice import SupersededRows
from compactor.rewrite.plan.unit import Unit
from compactor.rows.acid_file import AcidFile, Keys, open_files, stripe_keys
from compactor.rows.keys import DELETE, INSERT, UPDATE, Mask, sort_order, valid_mask
from compactor.storage.protocol import Storage


def load_changes(unit: Unit, scratch: str, storage: Storage) -> SortedEvents:
    """Loads the visible update and delete events of all the unit's files, in bounded memory.

    Raises:
        BadFile: a file cannot be read.
        NotLossless: an operation is unknown, or two statements of one transaction changed the same row.
    """
    sorter = EventSorter(scratch)
    for source in (*unit.inserts, *unit.deletes):
        with open_files(unit.location, [source], unit.number, storage, plain_buckets=True) as files:
            for file in files:
                for keys in _read_changes(file):
                    changes = valid_mask(unit.write_ids, keys.current) & (keys.operation != INSERT)
                    sorter.add(pack_events(keys.block[changes], keys.current[changes]))
    changed = sorter.finish()
    _must_be_changed_once(unit, changed)
    return changed


def mark_superseded_by(changed: SortedEvents) -> SupersededRows:
    """Returns a function that marks the rows that the events ``changed`` supersede."""

    def superseded(file: AcidFile, keys: Keys) -> Mask:
        newest = changed.newest(keys.block)
        inserted = keys.operation == INSERT  # a statement may change a row that its own transaction inserted
        later = (newest > keys.current) | (inserted & (newest == keys.current))
        mask: Mask = later | (keys.operation == DELETE)
        return mask

    return superseded


def _read_changes(file: AcidFile) -> Iterator[Keys]:
    """Yields the keys of all stripes that may hold more than insert events."""
    if file.is_raw:
        return
    for stripe in range(len(file.tail.stripes)):
        known = key_statistics(file.tail, stripe)
        if known is not None and known.operation.minimum == known.operation.maximum == INSERT:
            continue
        for keys in stripe_keys(file, stripe):
            if np.any((keys.operation < INSERT) | (keys.operation > DELETE)):
                raise NotLossless(
                    f"{file.path}: holds operations other than {INSERT}, {UPDATE} and {DELETE}; restore the file"
                )
            yield keys


def _must_be_changed_once(unit: Unit, changed: SortedEvents) -> None:
    """Checks that each transaction changed a row at most once.

    The order of two changes depends on the order of statements, which a compaction may have lost.

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
