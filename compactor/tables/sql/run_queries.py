"""SELECT of columns from one table, without an engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from compactor.metastore.catalog import values
from compactor.orc.codecs.json_values import value
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import Types
from compactor.statements import parsed_actions
from compactor.statements.statement import Statement
from compactor.tables.schema import IN_PARTS, ROW_ID
from compactor.tables.sql.answer import Answer
from compactor.tables.sql.sql_session import Session
from compactor.tables.table import Table

_COUNT = "count(*)"
_NONE = "there are no such rows"
_ROW_ID_TYPE = "struct<writeid:bigint,bucketid:int,rowid:bigint>"


def select(session: Session, statement: Statement, action: parsed_actions.Select) -> Answer:
    """Reads rows in the order of files; with a limit, reads no more than needed.

    Raises:
        NotFound: the table or a column does not exist.
        BadExpression: the condition compares values that cannot be compared.
        NotSupported: Arrow has no equivalent of a column's type.
        SnapshotExpired: the snapshot can no longer be read.
    """
    stored = session.load_table(action.table)
    names = list(action.columns) if action.columns is not None else None
    scan = session.open_table(stored).scan(**_scan_arguments(action))
    if action.count:
        # count even for LIMIT 0: a bad condition is refused whatever the limit
        counted = [{_COUNT: scan.count()}]
        return Answer(
            statement=statement.name, rows=counted[: action.limit], columns=(_COUNT,), message=_NONE, whole=True
        )
    shown = names if names is not None else [field.name.lower() for field in scan.schema]
    rows = _rows(session, stored, action, shown)
    return Answer(statement=statement.name, rows=rows, columns=tuple(shown), message=_NONE, whole=True)


def _scan_arguments(action: parsed_actions.Select) -> Mapping[str, Any]:
    """Returns the arguments of ``Table.scan``."""
    fields = None if action.columns is None else [name for name in action.columns if name != ROW_ID]
    row_ids = action.columns is not None and ROW_ID in action.columns
    return {"row_filter": action.where, "selected_fields": fields, "row_ids": row_ids, "timestamps": IN_PARTS}


def _types(table: values.Table, names: Sequence[str]) -> list[Types]:
    kinds = {column.name.lower(): column.type for column in (*table.columns, *table.partition_keys)}
    return [parse_hive_type(_ROW_ID_TYPE if name == ROW_ID else kinds[name]) for name in names]


def _rows(
    session: Session, table: values.Table, action: parsed_actions.Select, names: Sequence[str]
) -> Iterator[Mapping[str, object]]:
    """Yields rows as JSON values, with the columns in the order of ``names``. A limit ends the scan, which then commits."""
    types, remaining = _types(table, names), action.limit
    if remaining == 0:
        return
    with session.within() as txn:
        for batch in Table(session.site, table, txn).scan(**_scan_arguments(action)).to_arrow_batch_reader():
            count = batch.num_rows if remaining is None else min(remaining, batch.num_rows)
            yield from _rows_of_batch(batch.slice(0, count), names, types)
            remaining = None if remaining is None else remaining - count
            if remaining == 0:
                return


def _rows_of_batch(
    batch: pa.RecordBatch, names: Sequence[str], types: Sequence[Types]
) -> Iterator[Mapping[str, object]]:
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    columns = [batch.column(places[name]) for name in names]
    for index in range(batch.num_rows):
        yield {name: value(column[index], kind, 0) for name, column, kind in zip(names, columns, types, strict=True)}
