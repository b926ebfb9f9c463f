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


def select(session: Session, statement: Statement, asked: parsed_actions.Select) -> Answer:
    """Reads rows in the order of files; with a limit no more than it takes.

    Raises:
        NotFound: there is no such table or column.
        BadExpression: the condition compares what cannot be compared.
        NotSupported: a column has a type that Arrow has no equal of.
        SnapshotExpired: the snapshot can no longer be read.
    """
    found = session.found(asked.table)
    names = list(asked.columns) if asked.columns is not None else None
    wanted = session.opened(found).scan(**_words(asked))
    if asked.count:
        counted = [{_COUNT: wanted.count()}]  # with LIMIT 0, too: a bad condition is refused whatever the limit
        return Answer(statement=statement.name, rows=counted[: asked.limit], columns=(_COUNT,), said=_NONE, whole=True)
    shown = names if names is not None else [field.name.lower() for field in wanted.schema]
    rows = _rows(session, found, asked, shown)
    return Answer(statement=statement.name, rows=rows, columns=tuple(shown), said=_NONE, whole=True)


def _words(asked: parsed_actions.Select) -> Mapping[str, Any]:
    """Returns the arguments of the scan."""
    fields = None if asked.columns is None else [name for name in asked.columns if name != ROW_ID]
    row_ids = asked.columns is not None and ROW_ID in asked.columns
    return {"row_filter": asked.where, "selected_fields": fields, "row_ids": row_ids, "timestamps": IN_PARTS}


def _types(table: values.Table, names: Sequence[str]) -> list[Types]:
    kinds = {column.name.lower(): column.type for column in (*table.columns, *table.partition_keys)}
    return [parse_hive_type(_ROW_ID_TYPE if name == ROW_ID else kinds[name]) for name in names]


def _rows(
    session: Session, table: values.Table, asked: parsed_actions.Select, names: Sequence[str]
) -> Iterator[Mapping[str, object]]:
    """Yields rows as JSON has them, columns in the order of ``names``; a scan that a limit ends commits as others do."""
    types, left = _types(table, names), asked.limit
    if left == 0:
        return
    with session.within() as txn:
        for batch in Table(session.site, table, txn).scan(**_words(asked)).to_arrow_batch_reader():
            count = batch.num_rows if left is None else min(left, batch.num_rows)
            yield from _of_batch(batch.slice(0, count), names, types)
            left = None if left is None else left - count
            if left == 0:
                return


def _of_batch(batch: pa.RecordBatch, names: Sequence[str], types: Sequence[Types]) -> Iterator[Mapping[str, object]]:
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    columns = [batch.column(places[name]) for name in names]
    for index in range(batch.num_rows):
        yield {name: value(column[index], kind, 0) for name, column, kind in zip(names, columns, types, strict=True)}
