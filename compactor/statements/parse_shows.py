"""Parses SHOW and DESCRIBE."""

from __future__ import annotations

from compactor.locking.statement_rules import Access, AccessKind, Name
from compactor.statements.parse_utilities import show_compactions, show_locks, show_transactions
from compactor.statements.parsed_actions import Describe, ShowCreateTable, ShowDatabases, ShowPartitions, ShowTables
from compactor.statements.statement import Statement
from compactor.statements.statement_list import not_run
from compactor.statements.token_cursor import TokenReader

_OTHERS = ("database", "schema", "function", "connector")


def show(reader: TokenReader) -> Statement:
    """Parses SHOW: SHOW TABLES reads its database, the other forms lock nothing."""
    for word, form in (
        ("compactions", show_compactions),
        ("transactions", show_transactions),
        ("locks", show_locks),
        ("databases", _databases),
        ("schemas", _databases),
        ("tables", _tables),
        ("partitions", _partitions),
    ):
        if reader.take(word):
            return form(reader)
    if reader.take("create", "table"):
        return _create_table(reader)
    if reader.ended:
        raise reader.bad("COMPACTIONS, TRANSACTIONS, LOCKS, DATABASES, TABLES, PARTITIONS or CREATE TABLE is expected")
    return Statement(name="SHOW", action=not_run("SHOW"))


def describe(reader: TokenReader) -> Statement:
    """Parses DESCRIBE of a table."""
    following = reader.rest
    if len(following) > 1 and following[0].value in _OTHERS and following[1].value != ".":
        return Statement(name="DESCRIBE OTHER", action=not_run("DESCRIBE OTHER"))
    detailed = reader.take("extended") or reader.take("formatted")
    action = Describe(table=reader.name(), detailed=detailed)
    reader.end()
    return Statement(name="DESCRIBE", action=action)


def _databases(reader: TokenReader) -> Statement:
    action = ShowDatabases(like=_pattern(reader))
    reader.end()
    return Statement(name="SHOW DATABASES", action=action)


def _tables(reader: TokenReader) -> Statement:
    database = reader.part() if reader.take("in") or reader.take("from") else None
    action = ShowTables(database=database, like=_pattern(reader))
    reader.end()
    reads = Access(kind=AccessKind.READ, name=Name(database=database, table=""))
    return Statement(name="SHOW TABLES", accesses=(reads,), action=action)


def _pattern(reader: TokenReader) -> str | None:
    if reader.take("like"):
        return reader.text("a pattern in quotes")
    return None if reader.ended else reader.text("LIKE and a pattern in quotes")


def _partitions(reader: TokenReader) -> Statement:
    action = ShowPartitions(table=reader.name(), partition=reader.values())
    reader.end()
    return Statement(name="SHOW PARTITIONS", action=action)


def _create_table(reader: TokenReader) -> Statement:
    action = ShowCreateTable(table=reader.name())
    reader.end()
    return Statement(name="SHOW CREATE TABLE", action=action)
