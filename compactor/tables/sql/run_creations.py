"""CREATE TABLE … AS query: the table comes into the catalog with its rows, or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from compactor.base.errors import NotConforming, NotFound, Refused
from compactor.metastore.catalog import values
from compactor.site.mode import must_write
from compactor.statements import parsed_actions
from compactor.statements.statement import Statement
from compactor.tables.definitions import Definition, create_with_commit, must_be_embedded
from compactor.tables.schema import IN_PARTS
from compactor.tables.sql.answer import Answer, counted, done
from compactor.tables.sql.sql_session import Session
from compactor.tables.table import Table
from compactor.tables.writing.append import How, append


def create_as(session: Session, statement: Statement, asked: parsed_actions.CreateTableAs) -> Answer:
    """Creates a table with the rows of columns of one table; their types are those of that table.

    Raises:
        NotConforming: a column is there twice.
        Refused, NotFound, NotSupported: as ``Store.create_table`` says; or the metastore's mode is observe.
        BadExpression: the condition compares what cannot be compared.
        LockNotGranted: somebody else creates the table, or changes what is read.
    """
    assert asked.select is not None
    if (there := answer_if_there(session, statement, asked)) is not None:
        return there
    source = session.found(asked.select.table)
    wanted = _definition(session.full(asked.table), asked, _columns(source, asked.select))
    with session.within() as txn:
        made = create_with_commit(txn, asked.table.database or session.database, asked.table.table, wanted, statement)
        count = append(txn, made, _rows(Table(session.site, source, txn), asked.select), How())
    said = f"table {made} is created at {made.location}, with {counted(count)}"
    return done(statement.name, said, table=str(made), created=True, rows=count)


def answer_if_there(session: Session, statement: Statement, asked: parsed_actions.CreateTableAs) -> Answer | None:
    """Returns the answer where a table of this name is there and IF NOT EXISTS is said; None if it is to be created.

    Raises:
        Refused: it is there and that is not said; the metastore is Hive's, or its mode is observe.
    """
    name, database = session.full(asked.table), asked.table.database or session.database
    must_be_embedded(session.site, name)
    must_write(session.site.settings.of_database(database), name)
    if not session.site.metastore.catalog.is_known(database, asked.table.table):
        return None
    if not asked.if_not_exists:
        raise Refused(f"table {name} exists already")
    return done(statement.name, f"table {name} is there already", table=name, created=False)


def _definition(name: str, asked: parsed_actions.CreateTableAs, columns: list[tuple[str, str]]) -> Definition:
    """Returns the definition of a table with the ``columns`` of a query, each with Hive's type.

    Raises:
        NotConforming: one is there twice.
    """
    must_be_there_once(name, [column for column, _ in columns])
    return Definition(
        schema=dict(columns),
        partitioned_by=asked.partitioned_by,
        clustered_by=(asked.clustered_by, asked.buckets) if asked.clustered_by else None,
        properties=dict(asked.properties),
        location=asked.location,
    )


def must_be_there_once(name: str, columns: Sequence[str]) -> None:
    """Refuses a query that has a column twice.

    Raises:
        NotConforming: it has.
    """
    names = [column.lower() for column in columns]
    if twice := next((one for one in names if names.count(one) > 1), None):
        raise NotConforming(f"{name}: the query has the column {twice!r} twice; give one of them another name")


def _columns(source: values.Table, select: parsed_actions.Select) -> list[tuple[str, str]]:
    """Returns the columns of the query, in its order.

    Raises:
        NotFound: the table has no such column.
    """
    kinds = {column.name.lower(): column.type for column in (*source.columns, *source.partition_keys)}
    names = kinds if select.columns is None else select.columns
    if unknown := [name for name in names if name not in kinds]:
        raise NotFound(f"{source} has no column {unknown[0]!r}; it has {', '.join(kinds)}")
    return [(name, kinds[name]) for name in names]


def _rows(source: Table, select: parsed_actions.Select) -> pa.RecordBatchReader:
    """Returns the rows, no more than the limit."""
    scan = source.scan(select.where, selected_fields=select.columns, timestamps=IN_PARTS)
    reader = scan.to_arrow_batch_reader()
    if select.limit is None:
        return reader
    return pa.RecordBatchReader.from_batches(reader.schema, _first(reader, select.limit))


def _first(batches: pa.RecordBatchReader, count: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if count <= 0:
            return
        yield batch.slice(0, count)
        count -= batch.num_rows
