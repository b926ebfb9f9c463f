"""Replaces rows with the same key, and adds the others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotConforming
from compactor.locking.lock_requests import LockType
from compactor.metastore.catalog.values import Table
from compactor.tables.reading.scan import Scan
from compactor.tables.reading.scan_planning import partitions_to_read
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.schema import IN_PARTS
from compactor.tables.transactions.transaction import Transaction, WriteOperation
from compactor.tables.writing.append import RowSource, WriteOptions, conform_rows, read_within, write
from compactor.tables.writing.changes import Deletion
from compactor.tables.writing.matching import PLACE, find_key_columns, has_null, make_comparable, match_keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """The numbers of rows that replaced others and that were added."""

    updated: int
    inserted: int


def upsert(
    txn: Transaction, table: Table, rows: RowSource, join_cols: tuple[str, ...], options: WriteOptions
) -> Upserted:
    """Replaces the rows with the same values of ``join_cols`` by ``rows``, and adds the others.

    NULL equals nothing, so a row with a NULL in its key is always added. The lock excludes all other writers: of two that
    only share it, both would add a key that neither sees.

    Raises:
        NotConforming: two of ``rows`` have the same key, or a column or value does not fit the table.
        NotFound: the table has no such column.
        Refused: no column is named.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: another transaction wrote into the table while this one waited for its lock.
    """
    key = find_key_columns(table, join_cols, "join_cols")
    source = None if isinstance(rows, Scan) else _source(table, rows, key, options)
    request = ScanRequest(selected_fields=tuple(key), row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, request), LockType.EXCL_WRITE, must_see_all=True)
    if source is None:
        source = _source(table, read_within(txn, rows), key, options)
    if not source.num_rows:
        return Upserted(updated=0, inserted=0)
    known = make_comparable(source.select(key)).append_column(PLACE, pa.array(np.arange(source.num_rows)))
    replaced: set[int] = set()

    def take(batch: pa.RecordBatch) -> pa.RecordBatch:
        places = match_keys(pa.Table.from_batches([batch]).select(key), known)
        replaced.update(places.drop_null().to_pylist())
        return batch.filter(pc.is_valid(places))

    Deletion(txn, table).delete_rows(request, take)
    write(txn, table, [source], WriteOperation.INSERT)
    return Upserted(updated=len(replaced), inserted=source.num_rows - len(replaced))


def _source(table: Table, rows: RowSource, key: list[str], options: WriteOptions) -> pa.Table:
    source = pa.concat_tables(list(conform_rows(table, rows, options)), promote_options="permissive")
    _must_be_unique(table, source, key)
    return source


def _must_be_unique(table: Table, source: pa.Table, key: list[str]) -> None:
    keys = source.select(key)
    whole = make_comparable(keys.filter(pc.invert(has_null(keys))))
    names = whole.column_names
    counts = whole.append_column(PLACE, pa.array(np.zeros(whole.num_rows, dtype=np.int8)))
    counts = counts.group_by(names).aggregate([(PLACE, "count")])
    twice = counts.filter(pc.greater(counts.column(f"{PLACE}_count"), 1))
    if twice.num_rows:
        values = {name: twice.column(name)[0].as_py() for name in names}
        raise NotConforming(f"{table}: two of the rows have the key {values}; it is unclear which one counts")
