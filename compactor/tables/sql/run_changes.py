"""INSERT ... VALUES, UPDATE, DELETE, and the statements that start and end transactions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from compactor.base.errors import NotConforming, NotFound, Refused
from compactor.metastore.catalog.values import Column, Table
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Statement
from compactor.tables.schema import column_type
from compactor.tables.sql.named_partitions import key_values
from compactor.tables.sql.sql_session import Answer, Session, build_result, format_count
from compactor.tables.writing.literals import build_literal_arrays


def insert(session: Session, statement: Statement, action: parsed_actions.Insert) -> Answer:
    """Appends the rows of VALUES to a table, or replaces its rows by them.

    Raises:
        NotConforming: a row has too few or too many values, or a value does not fit its column's type.
        NotFound: the table, a column or a partition key does not exist.
        NotSupported: we do not write such a table, or such a column.
        Refused, LockNotGranted, TransactionAborted: as for ``Table.append`` and ``Table.overwrite``.
    """
    stored = session.load_table(action.table)
    table = session.open_table(stored)
    static = key_values(stored, action.partition)
    rows = _rows(stored, columns_of_values(stored, action, static), action.rows)
    write = table.overwrite if action.overwrite else table.append
    count = write(rows, partition=static or None)
    return build_result(statement.name, f"{stored}: {format_count(count)} written", table=str(stored), rows=count)


def update(session: Session, statement: Statement, action: parsed_actions.Update) -> Answer:
    """Updates rows; raises the errors of ``Table.update``."""
    table = session.open_table(session.load_table(action.table))
    count = table.update(dict(action.assignments), action.where)
    return build_result(statement.name, f"{table.name}: {format_count(count)} updated", table=table.name, rows=count)


def delete(session: Session, statement: Statement, action: parsed_actions.Delete) -> Answer:
    """Deletes rows; raises the errors of ``Table.delete``."""
    table = session.open_table(session.load_table(action.table))
    count = table.delete(action.where)
    return build_result(statement.name, f"{table.name}: {format_count(count)} deleted", table=table.name, rows=count)


def start(session: Session, statement: Statement, action: parsed_actions.StartTransaction) -> Answer:
    """Starts a transaction for the statements that follow."""
    txn = session.start()
    return build_result(statement.name, f"transaction {txn} is open", txnid=txn)


def commit(session: Session, statement: Statement, action: parsed_actions.Commit) -> Answer:
    """Commits the transaction.

    Raises:
        TransactionAborted: it timed out, or another writer of the same rows committed first.
        CommitUnknown: the answer to the commit was lost.
    """
    txn = session.commit()
    return build_result(statement.name, f"transaction {txn} is committed", txnid=txn)


def roll_back(session: Session, statement: Statement, action: parsed_actions.Rollback) -> Answer:
    """Aborts the transaction."""
    txn = session.roll_back()
    return build_result(statement.name, f"transaction {txn} is rolled back", txnid=txn)


def columns_of_values(
    table: Table, action: parsed_actions.Insert | parsed_actions.InsertTarget, static: Mapping[str, object]
) -> list[Column]:
    """Returns the column of each value of a row.

    The order is the table's or the given one, with dynamic partition keys last.

    Raises:
        NotFound: the table has no such column.
        Refused: a column is named twice, or PARTITION has its value already; or dynamic partition keys are not in the
            table's order, so that it is unclear which value belongs to which key.
    """
    keys = [key for key in table.partition_keys if key.name.lower() not in static]
    named = [key for key, value in action.partition or () if value is None and key not in (action.columns or ())]
    order = [key.name.lower() for key in keys if key.name.lower() in named]
    if named != order:
        raise Refused(f"{table}: PARTITION has {', '.join(named)}; expected the table's order, {', '.join(order)}")
    if action.columns is None:
        return [*table.columns, *keys]
    known = {column.name.lower(): column for column in (*table.columns, *table.partition_keys)}
    columns: dict[str, Column] = {}
    for name in action.columns:
        if name not in known:
            raise NotFound(f"{table} has no column {name!r}; it has {', '.join(known)}")
        if name in columns or name in static:
            raise Refused(f"{table}: column {name} is named twice")
        columns[name] = known[name]
    return [*columns.values(), *(known[key] for key in named)]


def _rows(table: Table, columns: Sequence[Column], rows: Sequence[Sequence[parsed_actions.ValuesLiteral]]) -> pa.Table:
    expected, actual = len(columns), len(rows[0])
    if expected != actual:
        names = ", ".join(column.name for column in columns)
        raise NotConforming(f"{table}: a row has {actual} values; expected {expected}, for {names}")
    arrays = [
        build_literal_arrays([row[place] for row in rows], column_type(table, column), f"{table}: column {column.name}")
        for place, column in enumerate(columns)
    ]
    return pa.table(arrays, names=[column.name for column in columns])
