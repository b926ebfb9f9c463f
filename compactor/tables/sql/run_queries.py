"""SELECT of columns from one table, without an engine.

CREATE TABLE … AS creates a table with the rows of one.

The table and its rows appear in the catalog together, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from compactor.base.errors import NotConforming, NotFound, Refused
from compactor.base.utc import utc_text
from compactor.metastore.catalog import values
from compactor.orc.codecs.json_values import value
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.types import Types
from compactor.site.mode import must_write
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Statement
from compactor.tables.definitions import Definition, create_with_commit, must_be_embedded
from compactor.tables.reading.change_feed import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION
from compactor.tables.schema import IN_PARTS, ROW_ID
from compactor.tables.sql.sql_session import Answer, Session, build_result, format_count
from compactor.tables.table import Table
from compactor.tables.writing.append import WriteOptions, append

_COUNT = "count(*)"
_NONE = "there are no such rows"
_ROW_ID_TYPE = "struct<writeid:bigint,bucketid:int,rowid:bigint>"
_CHANGE_TYPES = {CHANGE_TYPE: "string", COMMIT_VERSION: "bigint", COMMIT_TIMESTAMP: "string", ROW_ID: _ROW_ID_TYPE}


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
    return {
        "row_filter": action.where,
        "selected_fields": fields,
        "row_ids": row_ids,
        "timestamps": IN_PARTS,
        "as_of": action.as_of,
    }


def _types(table: values.Table, names: Sequence[str]) -> list[Types]:
    kinds = {column.name.lower(): column.type for column in (*table.columns, *table.partition_keys)}
    return [parse_hive_type(_ROW_ID_TYPE if name == ROW_ID else kinds[name]) for name in names]


def _rows(
    session: Session, table: values.Table, action: parsed_actions.Select, names: Sequence[str]
) -> Iterator[Mapping[str, object]]:
    """Yields rows as JSON values, with the columns in the order of ``names``.

    A limit ends the scan, which then commits.
    """
    types, remaining = _types(table, names), action.limit
    if remaining == 0:
        return
    with session.within() as txn:
        for batch in Table(session.site, table, txn).scan(**_scan_arguments(action)).to_arrow_batch_reader():
            count = batch.num_rows if remaining is None else min(remaining, batch.num_rows)
            yield from json_rows(batch.slice(0, count), names, types)
            remaining = None if remaining is None else remaining - count
            if remaining == 0:
                return


def json_rows(batch: pa.RecordBatch, names: Sequence[str], types: Sequence[Types]) -> Iterator[Mapping[str, object]]:
    """Yields the rows of a batch as JSON values, with the columns in the order of ``names``."""
    places = {name.lower(): place for place, name in enumerate(batch.schema.names)}
    columns = [batch.column(places[name]) for name in names]
    for index in range(batch.num_rows):
        yield {name: value(column[index], kind, 0) for name, column, kind in zip(names, columns, types, strict=True)}


def change_rows(
    table: Table, since: int, until: int | None, *, key: Sequence[str], net: bool
) -> tuple[tuple[str, ...], Iterator[Mapping[str, object]]]:
    """Returns the columns and rows of ``Table.changes`` as JSON values; times of commits are texts in UTC."""
    reader = table.changes(since, until, key=key, net=net, timestamps=IN_PARTS)
    names = tuple(reader.schema.names)
    times = names.index(COMMIT_TIMESTAMP)
    types = table.hive_types | _CHANGE_TYPES
    kinds = [parse_hive_type(types[name.lower()]) for name in names]

    def rows() -> Iterator[Mapping[str, object]]:
        for batch in reader:
            texts = [None if at is None else utc_text(at) for at in batch.column(times).cast(pa.int64()).to_pylist()]
            shown = batch.set_column(times, COMMIT_TIMESTAMP, pa.array(texts, pa.string()))
            yield from json_rows(shown, names, kinds)

    return names, rows()


def create_as(session: Session, statement: Statement, action: parsed_actions.CreateTableAs) -> Answer:
    """Creates a table with columns and rows of another table; the columns keep their types.

    Raises:
        NotConforming: the query has a column twice.
        Refused, NotFound, NotSupported: as for ``Store.create_table``; or the metastore's mode is observe.
        BadExpression: the condition compares values that cannot be compared.
        LockNotGranted: somebody else creates the table, or changes the table that is read.
    """
    assert action.select is not None
    if (existing := answer_if_there(session, statement, action)) is not None:
        return existing
    source = session.load_table(action.select.table)
    definition = _define_table(session.full_name(action.table), action, _find_columns_of_query(source, action.select))
    with session.within() as txn:
        table = create_with_commit(
            txn, action.table.database or session.database, action.table.table, definition, statement
        )
        count = append(txn, table, _read_query(Table(session.site, source, txn), action.select), WriteOptions())
    message = f"table {table} is created at {table.location}, with {format_count(count)}"
    return build_result(statement.name, message, table=str(table), created=True, rows=count)


def answer_if_there(session: Session, statement: Statement, action: parsed_actions.CreateTableAs) -> Answer | None:
    """Returns the answer if the table exists and the statement has IF NOT EXISTS.

    Returns None if the table is to be created.

    Raises:
        Refused: the table exists and the statement has no IF NOT EXISTS, the metastore is Hive's, or its mode is observe.
    """
    name, database = session.full_name(action.table), action.table.database or session.database
    must_be_embedded(session.site, name)
    must_write(session.site.settings.of_database(database), name)
    if not session.site.metastore.catalog.is_known(database, action.table.table):
        return None
    if not action.if_not_exists:
        raise Refused(f"table {name} exists already")
    return build_result(statement.name, f"table {name} exists already", table=name, created=False)


def _define_table(name: str, action: parsed_actions.CreateTableAs, columns: list[tuple[str, str]]) -> Definition:
    """Returns the definition of a table with the ``columns`` of a query, each with its Hive type.

    Raises:
        NotConforming: the query has a column twice.
    """
    must_be_there_once(name, [column for column, _ in columns])
    return Definition(
        schema=dict(columns),
        partitioned_by=action.partitioned_by,
        clustered_by=(action.clustered_by, action.buckets) if action.clustered_by else None,
        properties=dict(action.properties),
        location=action.location,
    )


def must_be_there_once(name: str, columns: Sequence[str]) -> None:
    """Refuses a query that has a column twice.

    Raises:
        NotConforming: a column is there twice.
    """
    names = [column.lower() for column in columns]
    if twice := next((column for column in names if names.count(column) > 1), None):
        raise NotConforming(f"{name}: the query has the column {twice!r} twice; give one of them another name")


def _find_columns_of_query(source: values.Table, select: parsed_actions.Select) -> list[tuple[str, str]]:
    """Returns the columns of the query, in its order.

    Raises:
        NotFound: the table has no such column.
    """
    kinds = {column.name.lower(): column.type for column in (*source.columns, *source.partition_keys)}
    names = kinds if select.columns is None else select.columns
    if unknown := [name for name in names if name not in kinds]:
        raise NotFound(f"{source} has no column {unknown[0]!r}; it has {', '.join(kinds)}")
    return [(name, kinds[name]) for name in names]


def _read_query(source: Table, select: parsed_actions.Select) -> pa.RecordBatchReader:
    """Returns the rows, up to the limit."""
    scan = source.scan(select.where, selected_fields=select.columns, timestamps=IN_PARTS, as_of=select.as_of)
    reader = scan.to_arrow_batch_reader()
    if select.limit is None:
        return reader
    return pa.RecordBatchReader.from_batches(reader.schema, _take_first(reader, select.limit))


def _take_first(batches: pa.RecordBatchReader, count: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if count <= 0:
            return
        yield batch.slice(0, count)
        count -= batch.num_rows
