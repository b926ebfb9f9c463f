"""INSERT ... VALUES, UPDATE, DELETE, and transactions over several of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from compactor.base.errors import NotConforming, NotFound, Refused
from compactor.metastore.catalog.values import Column, Table
from compactor.statements import parsed_actions
from compactor.statements.statement import Statement
from compactor.tables.schema import column_type
from compactor.tables.sql.answer import Answer, counted, done
from compactor.tables.sql.named_partitions import key_values
from compactor.tables.sql.sql_session import Session
from compactor.tables.writing.literals import literal_arrays


def insert(session: Session, statement: Statement, asked: parsed_actions.Insert) -> Answer:
    """Appends the rows of VALUES, or puts them in place of what is there.

    Raises:
        NotConforming: a row has too few or too many values, or one is none of its column's type.
        NotFound: there is no such table, column or partition key.
        NotSupported: the table, or the type of a column, is not written here.
        Refused, LockNotGranted, TransactionAborted: as ``Table.append`` and ``Table.overwrite`` say.
    """
    found = session.found(asked.table)
    table = session.opened(found)
    static = key_values(found, asked.partition)
    rows = _rows(found, columns_of_values(found, asked, static), asked.rows)
    write = table.overwrite if asked.overwrite else table.append
    count = write(rows, partition=static or None)
    return done(statement.name, f"{found}: {counted(count)} written", table=str(found), rows=count)


def update(session: Session, statement: Statement, asked: parsed_actions.Update) -> Answer:
    """Gives rows other values; raises as ``Table.update`` does."""
    table = session.opened(session.found(asked.table))
    count = table.update(dict(asked.assignments), asked.where)
    return done(statement.name, f"{table.name}: {counted(count)} updated", table=table.name, rows=count)


def delete(session: Session, statement: Statement, asked: parsed_actions.Delete) -> Answer:
    """Deletes rows; raises as ``Table.delete`` does."""
    table = session.opened(session.found(asked.table))
    count = table.delete(asked.where)
    return done(statement.name, f"{table.name}: {counted(count)} deleted", table=table.name, rows=count)


def start(session: Session, statement: Statement, asked: parsed_actions.StartTransaction) -> Answer:
    """Opens a transaction for the statements that follow."""
    txn = session.start()
    return done(statement.name, f"transaction {txn} is open", txnid=txn)


def commit(session: Session, statement: Statement, asked: parsed_actions.Commit) -> Answer:
    """Commits the transaction.

    Raises:
        TransactionAborted: it timed out, or another writer of the same rows committed first.
        CommitUnknown: the answer to the commit was lost.
    """
    txn = session.commit()
    return done(statement.name, f"transaction {txn} is committed", txnid=txn)


def roll_back(session: Session, statement: Statement, asked: parsed_actions.Rollback) -> Answer:
    """Ends the transaction without its writes."""
    txn = session.roll_back()
    return done(statement.name, f"transaction {txn} is rolled back", txnid=txn)


def columns_of_values(
    table: Table, asked: parsed_actions.Insert | parsed_actions.Target, static: Mapping[str, object]
) -> list[Column]:
    """Returns the column of each value of a row: the table's order, or the given one, dynamic partition keys last.

    Raises:
        NotFound: there is no such column.
        Refused: a column is given twice, or has its value by PARTITION already; dynamic partition keys are named in another
            order than the table's, of which nobody can say to which of them a value belongs.
    """
    keys = [key for key in table.partition_keys if key.name.lower() not in static]
    named = [key for key, value in asked.partition or () if value is None and key not in (asked.columns or ())]
    order = [key.name.lower() for key in keys if key.name.lower() in named]
    if named != order:
        raise Refused(f"{table}: PARTITION has {', '.join(named)}; wanted the table's order, {', '.join(order)}")
    if asked.columns is None:
        return [*table.columns, *keys]
    known = {column.name.lower(): column for column in (*table.columns, *table.partition_keys)}
    found: dict[str, Column] = {}
    for name in asked.columns:
        if name not in known:
            raise NotFound(f"{table} has no column {name!r}; it has {', '.join(known)}")
        if name in found or name in static:
            raise Refused(f"{table}: column {name} is given twice")
        found[name] = known[name]
    return [*found.values(), *(known[key] for key in named)]


def _rows(table: Table, columns: Sequence[Column], rows: Sequence[Sequence[parsed_actions.Literal]]) -> pa.Table:
    wanted, given = len(columns), len(rows[0])
    if wanted != given:
        names = ", ".join(column.name for column in columns)
        raise NotConforming(f"{table}: a row has {given} values; wanted are {wanted}, for {names}")
    arrays = [
        literal_arrays([row[place] for row in rows], column_type(table, column), f"{table}: column {column.name}")
        for place, column in enumerate(columns)
    ]
    return pa.table(arrays, names=[column.name for column in columns])
