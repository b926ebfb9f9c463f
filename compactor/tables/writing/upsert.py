"""Rows put in place of those with the same key, or added where there are none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.base.errors import NotConforming
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.tables.reading.scan import Scan
from compactor.tables.reading.scan_planning import partitions_to_read
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.schema import IN_PARTS
from compactor.tables.transactions.transaction import Transaction, WriteOperation
from compactor.tables.writing.append import How, RowSource, conformed, read_within, write
from compactor.tables.writing.changes import Deletion
from compactor.tables.writing.matching import PLACE, comparable, has_null, key_columns, matches


@dataclass(frozen=True, slots=True, kw_only=True)
class Upserted:
    """The numbers of rows that took another's place, and that were added."""

    updated: int
    inserted: int


def upsert(txn: Transaction, table: Table, rows: RowSource, join_cols: tuple[str, ...], how: How) -> Upserted:
    """Puts ``rows`` in place of the rows with the same values of ``join_cols``, and adds the others.

    NULL equals nothing, so a row with a NULL in its key is always added. The lock excludes every other writer: of two
    that only share it, both would add a key that neither sees.

    Raises:
        NotConforming: two of ``rows`` have the same key, or a column or value is not the table's.
        NotFound: the table has no such column.
        Refused: no column is named.
        LockNotGranted: somebody holds a conflicting lock.
        WriteConflict: another transaction wrote into the table while this one waited for its lock.
    """
    key = key_columns(table, join_cols, "join_cols")
    source = None if isinstance(rows, Scan) else _source(table, rows, key, how)
    wanted = ScanRequest(selected_fields=tuple(key), row_ids=True, timestamps=IN_PARTS)
    txn.lock_for_changes(table, partitions_to_read(txn, table, wanted), LockType.EXCL_WRITE, must_see_all=True)
    if source is None:
        source = _source(table, read_within(txn, rows), key, how)
    if not source.num_rows:
        return Upserted(updated=0, inserted=0)
    known = comparable(source.select(key)).append_column(PLACE, pa.array(np.arange(source.num_rows)))
    replaced: set[int] = set()

    def take(found: pa.RecordBatch) -> pa.RecordBatch:
        places = matches(pa.Table.from_batches([found]).select(key), known)
        replaced.update(places.drop_null().to_pylist())
        return found.filter(pc.is_valid(places))

    Deletion(txn, table).of(wanted, take)
    write(txn, table, [source], WriteOperation.INSERT)
    return Upserted(updated=len(replaced), inserted=source.num_rows - len(replaced))


def _source(table: Table, rows: RowSource, key: list[str], how: How) -> pa.Table:
    source = pa.concat_tables(list(conformed(table, rows, how)), promote_options="permissive")
    _must_be_unique(table, source, key)
    return source


def _must_be_unique(table: Table, source: pa.Table, key: list[str]) -> None:
    keys = source.select(key)
    whole = comparable(keys.filter(pc.invert(has_null(keys))))
    names = whole.column_names
    counts = whole.append_column(PLACE, pa.array(np.zeros(whole.num_rows, dtype=np.int8)))
    counts = counts.group_by(names).aggregate([(PLACE, "count")])
    twice = counts.filter(pc.greater(counts.column(f"{PLACE}_count"), 1))
    if twice.num_rows:
        values = {name: twice.column(name)[0].as_py() for name in names}
        raise NotConforming(f"{table}: two of the rows have the key {values}; which of them counts is not known")
