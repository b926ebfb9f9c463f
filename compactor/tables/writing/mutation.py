"""Ordered inserts, updates and deletes of rows by key or by ROW__ID, as one statement of a transaction.

Operations are gathered first: rows in memory or on disk, keys in memory. In the end the keys are looked up under the lock,
in one scan, and what is left of the operations on each is written: its old row deleted, its last version inserted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotConforming, NotFound, NotSupported, Refused
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.rows.keys import Mask, Numbers
from compactor.tables.reading.scan_planning import partitions_to_read
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.schema import IN_PARTS, ROW_ID, ROW_ID_TYPE
from compactor.tables.transactions.transaction import Transaction, WriteOperation
from compactor.tables.writing.append import How, Rows, parts_of, write
from compactor.tables.writing.changes import Deletion
from compactor.tables.writing.conform import Door
from compactor.tables.writing.insert_files import WaitingRows
from compactor.tables.writing.matching import comparable, has_null, key_columns, matches, numbered
from compactor.tables.writing.net_changes import NetChanges, net_changes, out_of_turn, pairs
from compactor.tables.writing.row_change import Changed, Kind

_NEW = -1  #: in place of an operation's number: a row without a key


class Mutation:
    """Operations on one table in their order; see ``Table.mutate``.

    Args:
        key: the names of its columns; None for ROW__IDs.
        scratch: a directory for rows that are too many for the memory.
    """

    def __init__(self, table: Table, key: Sequence[str] | None, how: How, scratch: str) -> None:
        self._table, self._how, self._scratch = table, how, scratch
        self._by_row_id = key is None
        partitions = [column.name for column in table.partition_keys]
        self._key = partitions if key is None else key_columns(table, key, "key")
        lowered = [bucketing.lower() for bucketing in table.bucket_columns]
        buckets = [column.name for column in table.columns if column.name.lower() in lowered]
        self._fixed = [name for name in (*buckets, *partitions) if name not in self._key]  # which an update keeps
        self._columns = {column.name: column.type for column in (*table.columns, *table.partition_keys)}
        self._rows = WaitingRows()
        self._operations: list[Numbers] = []  # of each row that waits
        self._kinds: list[Numbers] = []
        self._keys: list[pa.Table] = []
        self._places: list[pa.Table] = []
        self._count = 0
        self._is_done = False
        self.changed = Changed()  #: the numbers of rows, once the block has ended

    def insert(self, rows: Rows) -> int:
        """Inserts rows, as ``append`` takes them, and returns how many they are; with a key none of them may be there.

        Raises:
            NotConforming: a column or value is not the table's, or a key is NULL.
            NotSupported: the type of a column is not written here.
        """
        return self._take(Kind.INSERT, rows)

    def update(self, rows: Rows) -> int:
        """Puts rows in place of those with the same key, or ROW__ID in the column ``row__id``, and returns how many they
        are. They are whole rows: no column is left out.

        Raises:
            NotConforming: a column is missing, a column or value is not the table's, or a key is NULL.
            NotSupported: the type of a column is not written here.
        """
        return self._take(Kind.UPDATE, rows)

    def delete(self, rows: Rows) -> int:
        """Deletes the rows with these keys, or with the ROW__IDs in the column ``row__id``, and returns how many they are.
        Other columns are ignored, but a ROW__ID in a partitioned table needs the partition columns.

        Raises:
            NotConforming: a column of the key is missing, or a key is NULL.
        """
        return self._take(Kind.DELETE, rows)

    def finish(self, txn: Transaction) -> Changed:
        """Does all of it in ``txn``, and returns the numbers of rows that were deleted, updated and inserted.

        Raises:
            NotFound: a row that is updated or deleted is not there.
            Refused: a row that is inserted is there already, or a key is that of several rows.
            NotSupported: an update gives a partition or bucketing column another value.
            LockNotGranted, WriteConflict: as with ``Table.upsert``.
        """
        self._is_done = True
        keeps = np.ones(self._count + 1, dtype=bool)  # the last one stands for rows without a key
        added = int(np.count_nonzero(np.concatenate([*self._operations, np.empty(0, np.int64)]) == _NEW))
        if self._count:
            net = self._applied(txn)
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
            write(txn, self._table, self._kept(keeps), WriteOperation.INSERT)
        return self.changed

    def _take(self, kind: Kind, rows: Rows) -> int:
        if self._is_done:
            raise Refused(f"{self._table}: the block of the mutation has ended; open another one")
        has_key = not (self._by_row_id and kind is Kind.INSERT)
        waiting, operations, keys, places, count = WaitingRows(), [], [], [], 0
        for part in parts_of(self._table, rows):
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

    def _whole(self, kind: Kind, part: pa.Table) -> pa.Table | None:
        """Returns whole rows in the table's columns; None for a delete."""
        if kind is Kind.DELETE:
            return None
        given = {name.lower() for name in part.column_names}
        if kind is Kind.UPDATE and (missing := [name for name in self._columns if name.lower() not in given]):
            raise NotConforming(
                f"{self._table}: an update has no column {missing[0]!r}; give whole rows, or change single columns by "
                "Table.update"
            )
        if self._by_row_id and kind is Kind.UPDATE:
            part = part.select([name for name in part.column_names if name.lower() != ROW_ID])
        return self._door(self._columns).conform(part)

    def _key_of(self, kind: Kind, rows: pa.Table, given: pa.Table) -> pa.Table:
        """Returns the comparable keys of rows, which are whole and conformed but for a delete."""
        wanted = [name for name in rows.column_names if name.lower() in [one.lower() for one in self._key]]
        found = self._door({name: self._columns[name] for name in self._key}).conform(rows.select(wanted))
        names = {name.lower() for name in given.column_names}
        if missing := [name for name in self._key if name.lower() not in names]:
            raise NotConforming(f"{self._table}: {kind.name} has no column {missing[0]!r}, which is in the key")
        if not self._by_row_id and (nulls := pc.index(has_null(found).combine_chunks(), True).as_py()) >= 0:
            raise NotConforming(
                f"{self._table}: {kind.name} of row {nulls}, {found.slice(nulls, 1).to_pylist()[0]}: a key that is NULL is "
                "equal to nothing"
            )
        return comparable(_with_row_ids(self._table, found, given)) if self._by_row_id else comparable(found)

    def _place_of(self, whole: pa.Table | None, count: int) -> pa.Table:
        """Returns the values that an update keeps, NULL for a delete."""
        if whole is None:
            columns = {name: self._columns[name] for name in self._fixed}
            empty = pa.table({"": pa.nulls(count)}).select([])
            whole = self._door(columns).conform(empty) if columns else empty
        return comparable(whole.select(self._fixed)) if self._fixed else pa.table({})

    def _door(self, columns: dict[str, str]) -> Door:
        return Door(table=str(self._table), columns=tuple(columns.items()), time_zone=self._how.time_zone)

    def _applied(self, txn: Transaction) -> NetChanges:
        """Looks up all keys and deletes the rows that go; returns what is left of the operations."""
        keys, kinds = pa.concat_tables(self._keys), np.concatenate(self._kinds)
        known = numbered(keys)
        numbers = matches(keys, known).to_numpy()
        self._must_be_in_turn(keys, kinds, numbers)
        places = pa.concat_tables(self._places, promote_options="permissive") if self._fixed else None
        if places is not None:
            before, after = pairs(numbers)
            self._must_stay(keys, places, before[kinds[after] == Kind.UPDATE], after[kinds[after] == Kind.UPDATE])
        net = net_changes(kinds, numbers)
        found = self._looked_up(txn, known, net, kinds, places, keys)
        self._must_be_found(keys, kinds, net, found)
        return net

    def _looked_up(
        self,
        txn: Transaction,
        known: pa.Table,
        net: NetChanges,
        kinds: Numbers,
        places: pa.Table | None,
        keys: pa.Table,
    ) -> Numbers:
        """Deletes the rows that have a key and must exist; returns how often each key was found."""
        found: Numbers = np.zeros(known.num_rows, dtype=np.int64)
        updates = kinds[net.first] == Kind.UPDATE

        def take(batch: pa.RecordBatch) -> pa.RecordBatch:
            rows = pa.Table.from_batches([batch])
            matched = matches(self._identity(rows), known)
            hits = np.asarray(matched.is_valid())
            numbers = matched.drop_null().to_numpy()
            np.add.at(found, numbers, 1)
            if places is not None and updates[numbers].any():
                moved = comparable(rows.select(self._fixed)).filter(pa.array(hits)).filter(pa.array(updates[numbers]))
                given = places.take(pa.array(net.first[numbers[updates[numbers]]]))
                self._must_be_equal(keys.take(pa.array(net.first[numbers[updates[numbers]]])), moved, given)
            goes = hits.copy()
            goes[hits] = net.must_exist[numbers]
            return batch.filter(pa.array(goes))

        fields = tuple(name for name in self._columns if name in (*self._key, *self._fixed))
        wanted = ScanRequest(selected_fields=fields, row_ids=True, timestamps=IN_PARTS)
        adds = bool((kinds == Kind.INSERT).any())
        kind = LockType.EXCL_WRITE if adds else None
        txn.lock_for_changes(self._table, partitions_to_read(txn, self._table, wanted), kind, must_see_all=adds)
        Deletion(txn, self._table).of(wanted, take)
        return found

    def _identity(self, found: pa.Table) -> pa.Table:
        """Returns the keys of rows that the scan found."""
        rows = found.select(self._key)
        return _with_row_ids(self._table, rows, found) if self._by_row_id else rows

    def _must_be_in_turn(self, keys: pa.Table, kinds: Numbers, numbers: Numbers) -> None:
        if (wrong := out_of_turn(kinds, numbers)) is not None:
            before, after = (Kind(kinds[place]).name for place in wrong)
            raise Refused(
                f"{self._table}: {after} of {_shown(keys, wrong[1])} comes after its {before} in the same mutation; nothing "
                "was changed"
            )

    def _must_be_found(self, keys: pa.Table, kinds: Numbers, net: NetChanges, found: Numbers) -> None:
        wrong = np.flatnonzero(np.where(net.must_exist, found != 1, found != 0))
        if not len(wrong):
            return
        first = wrong[np.argmin(net.first[wrong])]
        place, count = int(net.first[first]), int(found[first])
        what = f"{self._table}: {Kind(kinds[place]).name} of {_shown(keys, place)}"
        if not count:
            raise NotFound(f"{what}: there is no such row; nothing was changed")
        raise Refused(f"{what}: the table has {count} such rows; nothing was changed")

    def _must_stay(self, keys: pa.Table, places: pa.Table, before: Numbers, after: Numbers) -> None:
        """Refuses updates of what another operation has put elsewhere."""
        self._must_be_equal(keys.take(pa.array(after)), places.take(pa.array(before)), places.take(pa.array(after)))

    def _must_be_equal(self, keys: pa.Table, old: pa.Table, new: pa.Table) -> None:
        for name in old.column_names:
            differs = _differs(old.column(name), new.column(name).cast(old.column(name).type))
            if differs.any():
                place = int(np.argmax(differs))
                raise NotSupported(
                    f"{self._table}: UPDATE of {_shown(keys, place)} gives {name} the value {new.column(name)[place]}, and "
                    f"it is {old.column(name)[place]}: rows with another value of a partition or bucketing column lie "
                    "elsewhere; delete and insert them; nothing was changed"
                )

    def _kept(self, keeps: Mask) -> Iterator[pa.Table]:
        """Yields the rows whose operation is kept."""
        yield from _filtered(self._rows.batches(), np.concatenate(self._operations), keeps)


def _filtered(batches: Iterable[pa.RecordBatch], operations: Numbers, keeps: Mask) -> Iterator[pa.Table]:
    start = 0
    for batch in batches:
        kept = keeps[operations[start : start + batch.num_rows]]
        start += batch.num_rows
        if kept.any():
            yield pa.Table.from_batches([batch.filter(pa.array(kept))])


def _with_row_ids(table: Table, rows: pa.Table, given: pa.Table) -> pa.Table:
    """Returns ``rows`` with the parts of the ROW__IDs of ``given`` as columns."""
    place = next((at for at, name in enumerate(given.column_names) if name.lower() == ROW_ID), None)
    if place is None:
        raise NotConforming(
            f"{table}: rows have no column {ROW_ID}; give the ROW__IDs that a scan with row_ids=True shows, or a key"
        )
    try:
        row_ids = given.column(place).combine_chunks().cast(ROW_ID_TYPE)
    except pa.ArrowException as error:
        raise NotConforming(f"{table}: {ROW_ID} is {given.column(place).type}, wanted: {ROW_ID_TYPE}") from error
    if row_ids.null_count:
        raise NotConforming(f"{table}: a {ROW_ID} is NULL")
    parts = {f"{ROW_ID}.{name}": pc.struct_field(row_ids, [at]) for at, name in enumerate(ROW_ID_TYPE.names)}
    partitions = comparable(rows)  # as texts: the partition of NULL is one like others, and a NULL is equal to nothing
    texts = {name: pc.fill_null(partitions.column(name).cast(pa.string()), "") for name in partitions.column_names}
    return pa.table(texts | parts)


def _shown(keys: pa.Table, place: int) -> str:
    return str(keys.slice(place, 1).to_pylist()[0])


def _differs(old: pa.ChunkedArray, new: pa.ChunkedArray) -> Mask:
    equal = pc.fill_null(pc.equal(old, new), False)
    both_null = pc.and_(pc.is_null(old), pc.is_null(new))
    found: Mask = np.asarray(pc.invert(pc.or_(equal, both_null)))
    return found
