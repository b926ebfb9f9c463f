"""Runs ordered inserts, updates and deletes of rows by key or ROW__ID as one statement.

Operations are first collected: rows in memory or on disk, keys in memory. At the end one scan under the lock looks up the
keys. Then the net change of each key is written: its old row is deleted, its last version inserted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotConforming, NotFound, NotSupported, Refused
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.rows.keys import Mask, Numbers
from compactor.site.site import Site
from compactor.tables.reading.scan_planning import ScanRequest, partitions_to_read
from compactor.tables.schema import IN_PARTS, ROW_ID, ROW_ID_TYPE
from compactor.tables.transactions.transaction import Transaction, WriteOperation
from compactor.tables.writing.append import Rows, WriteOptions, open_door, split_rows, write
from compactor.tables.writing.changes import (
    Deletion,
    find_key_columns,
    has_null,
    make_comparable,
    match_keys,
    number_keys,
)
from compactor.tables.writing.conform import Door
from compactor.tables.writing.row_change import Changed, RowChangeKind
from compactor.tables.writing.statement_files import WaitingRows

_NEW = -1  #: the operation number of a row without a key


class Mutation:
    """Ordered operations on one table; see ``Table.mutate``.

    Args:
        key: the names of the key columns; None for ROW__IDs.
        scratch: a directory for rows that do not fit into memory.
    """

    def __init__(
        self, site: Site, table: Table, key: Sequence[str] | None, options: WriteOptions, scratch: str
    ) -> None:
        self._site, self._table, self._options, self._scratch = site, table, options, scratch
        self._by_row_id = key is None
        partitions = [column.name for column in table.partition_keys]
        self._key = partitions if key is None else find_key_columns(table, key, "key")
        lowered = [bucketing.lower() for bucketing in table.bucket_columns]
        buckets = [column.name for column in table.columns if column.name.lower() in lowered]
        #: columns that an update must not change
        self._fixed = [name for name in (*buckets, *partitions) if name not in self._key]
        self._columns = {column.name: column for column in (*table.columns, *table.partition_keys)}
        self._rows = WaitingRows()
        self._operations: list[Numbers] = []  # the operation number of each waiting row
        self._kinds: list[Numbers] = []
        self._keys: list[pa.Table] = []
        self._places: list[pa.Table] = []
        self._count = 0
        self._is_done = False
        self.changed = Changed()  #: the numbers of changed rows, once the block has ended

    def insert(self, rows: Rows) -> int:
        """Inserts rows, as ``append`` takes them, and returns their number.

        With a key, no row with it may exist.

        Raises:
            NotConforming: a column or value does not fit the table, or a key is NULL.
            NotSupported: we do not write such a column.
        """
        return self._take(RowChangeKind.INSERT, rows)

    def update(self, rows: Rows) -> int:
        """Replaces the rows with the same key or ``row__id`` by whole rows, without missing columns.

        Returns their number.

        Raises:
            NotConforming: a column is missing, a column or value does not fit the table, or a key is NULL.
            NotSupported: we do not write such a column.
        """
        return self._take(RowChangeKind.UPDATE, rows)

    def delete(self, rows: Rows) -> int:
        """Deletes the rows with these keys or ``row__id`` values, and returns their number.

        Other columns are ignored, but a ROW__ID in a partitioned table needs the partition columns.

        Raises:
            NotConforming: a key column is missing, or a key is NULL.
        """
        return self._take(RowChangeKind.DELETE, rows)

    def finish(self, txn: Transaction) -> Changed:
        """Runs all operations in ``txn``, and returns the numbers of deleted, updated and inserted rows.

        Raises:
            NotFound: a row to update or delete does not exist.
            Refused: a row to insert exists already, or a key belongs to several rows.
            NotSupported: an update changes a partition or bucketing column.
            LockNotGranted, WriteConflict: as for ``Table.upsert``.
        """
        self._is_done = True
        keeps = np.ones(self._count + 1, dtype=bool)  # by operation number; the last entry is for rows without a key
        added = int(np.count_nonzero(np.concatenate([*self._operations, np.empty(0, np.int64)]) == _NEW))
        if self._count:
            net = self._apply(txn)
            keeps[:-1] = False
            keeps[net.last[net.remains]] = True
            self.changed = Changed(
                deleted=int(np.count_nonzero(net.must_exist & ~net.remains)),
                updated=int(np.count_nonzero(net.must_exist & net.remains)),
                inserted=int(np.count_nonzero(~net.must_exist & net.remains)) + added,
            )
        else:
            self.changed = Changed(inserted=added)
        if self.changed.updated + self.changed.inserted:
            write(txn, self._table, self._keep(keeps), WriteOperation.INSERT)
        return self.changed

    def _take(self, kind: RowChangeKind, rows: Rows) -> int:
        if self._is_done:
            raise Refused(f"{self._table}: the block of the mutation has ended; open a new one")
        has_key = not (self._by_row_id and kind is RowChangeKind.INSERT)
        waiting, operations, keys, places, count = WaitingRows(), [], [], [], 0
        for part in split_rows(self._table, rows):
            numbers = np.arange(count, count + part.num_rows) + self._count if has_key else np.full(part.num_rows, _NEW)
            whole = self._whole(kind, part)
            if has_key:
                keys.append(self._key_of(kind, part if whole is None else whole, part))
                places.append(self._place_of(whole, part.num_rows))
            if whole is not None:
                waiting.add(whole, self._scratch)
                operations.append(numbers)
            count += part.num_rows
        self._rows.take(waiting, self._scratch)
        self._operations += operations
        self._keys += keys
        self._places += places
        if has_key:
            self._kinds.append(np.full(count, int(kind), dtype=np.int64))
            self._count += count
        return count

    def _whole(self, kind: RowChangeKind, part: pa.Table) -> pa.Table | None:
        """Returns whole rows with the table's columns; None for a delete."""
        if kind is RowChangeKind.DELETE:
            return None
        names = {name.lower() for name in part.column_names}
        if kind is RowChangeKind.UPDATE and (missing := [name for name in self._columns if name.lower() not in names]):
            raise NotConforming(
                f"{self._table}: an update has no column {missing[0]!r}; give whole rows, or use Table.update to change "
                "single columns"
            )
        if self._by_row_id and kind is RowChangeKind.UPDATE:
            part = part.select([name for name in part.column_names if name.lower() != ROW_ID])
        return self._door(self._columns).conform(part)

    def _key_of(self, kind: RowChangeKind, rows: pa.Table, original: pa.Table) -> pa.Table:
        """Returns the comparable keys of rows; the rows are whole and fitted, except for a delete."""
        lowered = [name.lower() for name in self._key]
        selected = rows.select([name for name in rows.column_names if name.lower() in lowered])
        keys = self._door(self._key).conform(selected)
        names = {name.lower() for name in original.column_names}
        if missing := [name for name in self._key if name.lower() not in names]:
            raise NotConforming(f"{self._table}: {kind.name} has no column {missing[0]!r}, which is part of the key")
        if not self._by_row_id and (null_at := pc.index(has_null(keys).combine_chunks(), True).as_py()) >= 0:
            raise NotConforming(
                f"{self._table}: {kind.name} of row {null_at}, {keys.slice(null_at, 1).to_pylist()[0]}: a NULL in the key "
                "equals nothing"
            )
        return make_comparable(_with_row_ids(self._table, keys, original)) if self._by_row_id else make_comparable(keys)

    def _place_of(self, whole: pa.Table | None, count: int) -> pa.Table:
        """Returns the values that an update must not change; NULL for a delete."""
        if whole is None:
            empty = pa.table({"": pa.nulls(count)}).select([])
            whole = self._door(self._fixed).conform(empty) if self._fixed else empty
        return make_comparable(whole.select(self._fixed)) if self._fixed else pa.table({})

    def _door(self, names: Iterable[str]) -> Door:
        columns = [self._columns[name] for name in names]
        return open_door(self._site, self._table, columns, self._options.time_zone)

    def _apply(self, txn: Transaction) -> NetChanges:
        """Looks up all keys, deletes the rows to delete or replace, and returns the net changes."""
        keys, kinds = pa.concat_tables(self._keys), np.concatenate(self._kinds)
        known = number_keys(keys)
        numbers = match_keys(keys, known).to_numpy()
        self._must_be_in_turn(keys, kinds, numbers)
        places = pa.concat_tables(self._places, promote_options="permissive") if self._fixed else None
        if places is not None:
            before, after = find_pairs(numbers)
            self._must_stay(
                keys, places, before[kinds[after] == RowChangeKind.UPDATE], after[kinds[after] == RowChangeKind.UPDATE]
            )
        net = compute_net_changes(kinds, numbers)
        hits = self._delete_matches(txn, known, net, kinds, places, keys)
        self._must_be_found(keys, kinds, net, hits)
        return net

    def _delete_matches(
        self,
        txn: Transaction,
        known: pa.Table,
        net: NetChanges,
        kinds: Numbers,
        places: pa.Table | None,
        keys: pa.Table,
    ) -> Numbers:
        """Deletes the rows that have a key and must exist; returns how often each key occurs in the table."""
        hits: Numbers = np.zeros(known.num_rows, dtype=np.int64)
        updates = kinds[net.first] == RowChangeKind.UPDATE

        def take(batch: pa.RecordBatch) -> pa.RecordBatch:
            rows = pa.Table.from_batches([batch])
            matched = match_keys(self._identity(rows), known)
            is_hit = np.asarray(matched.is_valid())
            numbers = matched.drop_null().to_numpy()
            np.add.at(hits, numbers, 1)
            if places is not None and updates[numbers].any():
                moved = (
                    make_comparable(rows.select(self._fixed))
                    .filter(pa.array(is_hit))
                    .filter(pa.array(updates[numbers]))
                )
                expected = places.take(pa.array(net.first[numbers[updates[numbers]]]))
                self._must_be_equal(keys.take(pa.array(net.first[numbers[updates[numbers]]])), moved, expected)
            goes = is_hit.copy()
            goes[is_hit] = net.must_exist[numbers]
            return batch.filter(pa.array(goes))

        fields = tuple(name for name in self._columns if name in (*self._key, *self._fixed))
        request = ScanRequest(selected_fields=fields, row_ids=True, timestamps=IN_PARTS)
        adds = bool((kinds == RowChangeKind.INSERT).any())
        kind = LockType.EXCL_WRITE if adds else None
        txn.lock_for_changes(self._table, partitions_to_read(txn, self._table, request), kind, must_see_all=adds)
        Deletion(txn, self._table).delete_rows(request, take)
        return hits

    def _identity(self, rows: pa.Table) -> pa.Table:
        """Returns the keys of rows of the scan."""
        keys = rows.select(self._key)
        return _with_row_ids(self._table, keys, rows) if self._by_row_id else keys

    def _must_be_in_turn(self, keys: pa.Table, kinds: Numbers, numbers: Numbers) -> None:
        if (wrong := find_illegal_pair(kinds, numbers)) is not None:
            before, after = (RowChangeKind(kinds[place]).name for place in wrong)
            raise Refused(
                f"{self._table}: {after} of {_show_key(keys, wrong[1])} follows its {before} in the same mutation; nothing "
                "was changed"
            )

    def _must_be_found(self, keys: pa.Table, kinds: Numbers, net: NetChanges, hits: Numbers) -> None:
        wrong = np.flatnonzero(np.where(net.must_exist, hits != 1, hits != 0))
        if not len(wrong):
            return
        first = wrong[np.argmin(net.first[wrong])]
        place, count = int(net.first[first]), int(hits[first])
        what = f"{self._table}: {RowChangeKind(kinds[place]).name} of {_show_key(keys, place)}"
        if not count:
            raise NotFound(f"{what}: no such row exists; nothing was changed")
        raise Refused(f"{what}: the table has {count} such rows; nothing was changed")

    def _must_stay(self, keys: pa.Table, places: pa.Table, before: Numbers, after: Numbers) -> None:
        """Refuses an update that changes a fixed column compared with the operation before it."""
        self._must_be_equal(keys.take(pa.array(after)), places.take(pa.array(before)), places.take(pa.array(after)))

    def _must_be_equal(self, keys: pa.Table, old: pa.Table, new: pa.Table) -> None:
        for name in old.column_names:
            differs = _differs(old.column(name), new.column(name).cast(old.column(name).type))
            if differs.any():
                place = int(np.argmax(differs))
                raise NotSupported(
                    f"{self._table}: UPDATE of {_show_key(keys, place)} changes {name} from {old.column(name)[place]} to "
                    f"{new.column(name)[place]}: rows with another value of a partition or bucketing column are stored "
                    "elsewhere; delete and insert them; nothing was changed"
                )

    def _keep(self, keeps: Mask) -> Iterator[pa.Table]:
        """Yields the rows whose operation counts."""
        yield from _filter_rows(self._rows.batches(), np.concatenate(self._operations), keeps)


def _filter_rows(batches: Iterable[pa.RecordBatch], operations: Numbers, keeps: Mask) -> Iterator[pa.Table]:
    start = 0
    for batch in batches:
        kept = keeps[operations[start : start + batch.num_rows]]
        start += batch.num_rows
        if kept.any():
            yield pa.Table.from_batches([batch.filter(pa.array(kept))])


def _with_row_ids(table: Table, rows: pa.Table, original: pa.Table) -> pa.Table:
    """Returns ``rows`` with the parts of the ROW__IDs of ``original`` as columns."""
    place = next((at for at, name in enumerate(original.column_names) if name.lower() == ROW_ID), None)
    if place is None:
        raise NotConforming(
            f"{table}: rows have no column {ROW_ID}; give ROW__IDs from a scan with row_ids=True, or a key"
        )
    try:
        row_ids = original.column(place).combine_chunks().cast(ROW_ID_TYPE)
    except pa.ArrowException as error:
        raise NotConforming(f"{table}: {ROW_ID} is {original.column(place).type}, expected: {ROW_ID_TYPE}") from error
    if row_ids.null_count:
        raise NotConforming(f"{table}: a {ROW_ID} is NULL")
    parts = {f"{ROW_ID}.{name}": pc.struct_field(row_ids, [at]) for at, name in enumerate(ROW_ID_TYPE.names)}
    partitions = make_comparable(rows)  # compared as texts: the NULL partition is a partition like others
    texts = {name: pc.fill_null(partitions.column(name).cast(pa.string()), "") for name in partitions.column_names}
    return pa.table(texts | parts)


def _show_key(keys: pa.Table, place: int) -> str:
    return str(keys.slice(place, 1).to_pylist()[0])


def _differs(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Mask:
    equal = pc.fill_null(pc.equal(old, new), False)
    both_null = pc.and_(pc.is_null(old), pc.is_null(new))
    differs: Mask = np.asarray(pc.invert(pc.or_(equal, both_null)))
    return differs


@dataclass(frozen=True, slots=True, kw_only=True)
class NetChanges:
    """For each key, by number: the positions of its first and last operation, and their effect together."""

    first: Numbers
    last: Numbers
    must_exist: Mask  #: the table must have a row with the key, otherwise it must not
    remains: Mask  #: a row with the key exists afterwards


def compute_net_changes(kinds: Numbers, keys: Numbers) -> NetChanges:
    """Returns the net changes of ordered operations.

    Args:
        kinds: the ``RowChangeKind`` of each operation.
        keys: the numbers of their keys, from 0 without gaps.
    """
    order = np.argsort(keys, kind="stable")
    first, last = (order[np.flatnonzero(np.diff(keys[order], **edge))] for edge in ({"prepend": -1}, {"append": -1}))
    return NetChanges(
        first=first,
        last=last,
        must_exist=kinds[first] != RowChangeKind.INSERT,
        remains=kinds[last] != RowChangeKind.DELETE,
    )


def find_pairs(keys: Numbers) -> tuple[Numbers, Numbers]:
    """Returns the positions of consecutive operations on the same key: each one and its successor."""
    order = np.argsort(keys, kind="stable")
    same = keys[order][1:] == keys[order][:-1]
    return order[:-1][same], order[1:][same]


def find_illegal_pair(kinds: Numbers, keys: Numbers) -> tuple[int, int] | None:
    """Returns the first illegal pair of operations on a key.

    That is an insert of an existing row, or a change of a missing one.
    """
    before, after = find_pairs(keys)
    wrong = (kinds[after] == RowChangeKind.INSERT) != (kinds[before] == RowChangeKind.DELETE)
    if not wrong.any():
        return None
    earliest = np.argmin(after[wrong])
    return int(before[wrong][earliest]), int(after[wrong][earliest])
