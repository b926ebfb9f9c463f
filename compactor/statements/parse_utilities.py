"""Parses SHOW and DESCRIBE, and statements about compactions, transactions and locks."""

from __future__ import annotations

from typing import Any

from compactor.locking.statement_rules import Access, AccessKind, Name, Spec
from compactor.statements.parsed_actions import (
    AbortCompactions,
    AbortTransactions,
    Compact,
    Describe,
    ShowCompactions,
    ShowCreateTable,
    ShowDatabases,
    ShowLocks,
    ShowPartitions,
    ShowTables,
    ShowTransactions,
    Statement,
)
from compactor.statements.statement_list import not_run
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token, render_filter

_OTHERS = ("database", "schema", "function", "connector")


def show_compactions(reader: TokenReader) -> Statement:
    """Parses what follows SHOW COMPACTIONS: optional filters, in Hive's order."""
    filters: dict[str, Any] = {}
    if reader.take("compactionid"):
        reader.need("=")
        filters["id"] = reader.integer("the id of a compaction")
    elif reader.take("schema") or reader.take("database"):
        filters["schema"] = reader.part()
    elif not reader.ended and not reader.at_any("pool", "type", "status", "order", "limit"):
        filters["table"], filters["partition"] = reader.name(), reader.values()
    for word in ("pool", "type", "status"):
        if reader.take(word):
            filters[word] = reader.text()
    if reader.take("order", "by"):
        filters["order"] = render_filter(_until(reader, "limit"))
    if reader.take("limit"):
        filters["limit"] = reader.integer()
    reader.end()
    return Statement(name="SHOW COMPACTIONS", action=ShowCompactions(**filters))


def show_transactions(reader: TokenReader) -> Statement:
    """Parses what follows SHOW TRANSACTIONS."""
    reader.end()
    return Statement(name="SHOW TRANSACTIONS", action=ShowTransactions())


def show_locks(reader: TokenReader) -> Statement:
    """Parses what follows SHOW LOCKS."""
    schema: str | None = None
    table: Name | None = None
    partition: Spec | None = None
    if reader.take("database") or reader.take("schema"):
        schema = reader.part()
    elif not reader.ended and not reader.at("extended"):
        table, partition = reader.name(), reader.values()
    extended = reader.take("extended")
    reader.end()
    action = ShowLocks(schema=schema, table=table, partition=partition, extended=extended)
    return Statement(name="SHOW LOCKS", action=action)


def abort(reader: TokenReader) -> Statement:
    """Parses ABORT TRANSACTIONS and ABORT COMPACTIONS; as in Hive, commas between ids are optional."""
    transactions = reader.take("transactions")
    if not transactions and not reader.take("compactions"):
        raise reader.bad("TRANSACTIONS or COMPACTIONS is expected")
    ids = [reader.integer("an id")]
    while not reader.ended:
        reader.take(",")
        ids.append(reader.integer("an id"))
    every = tuple(dict.fromkeys(ids))
    if transactions:
        return Statement(name="ABORT TRANSACTIONS", action=AbortTransactions(ids=every))
    return Statement(name="ABORT COMPACTIONS", action=AbortCompactions(ids=every))


def compact(reader: TokenReader, table: Name, partition: Spec | None) -> Compact:
    """Parses what follows ALTER TABLE ... COMPACT: a type, then clauses in any order, each at most once."""
    clauses: dict[str, Any] = {"type": reader.text("a type in quotes, such as 'major',")}
    while not reader.ended:
        key, value = _clause(reader)
        if key in clauses:
            raise reader.bad(f"{key.replace('_', ' ').upper()} once, not twice, is expected")
        clauses[key] = value
    return Compact(table=table, partition=partition, **clauses)


def _clause(reader: TokenReader) -> tuple[str, object]:
    if reader.take("and", "wait"):
        return "wait", True
    if reader.take("clustered", "into"):
        buckets = reader.integer("the number of buckets")
        reader.need("buckets")
        return "buckets", buckets
    if reader.take("order", "by"):
        return "order_by", render_filter(_until(reader, "and", "clustered", "pool", "with"))
    if reader.take("pool"):
        return "pool", reader.text()
    if reader.take("with", "overwrite", "tblproperties"):
        return "properties", reader.properties()
    raise reader.bad("AND WAIT, CLUSTERED INTO n BUCKETS, ORDER BY, POOL or WITH OVERWRITE TBLPROPERTIES is expected")


def _until(reader: TokenReader, *ends: str) -> list[Token]:
    tokens = reader.until(lambda _: reader.at_any(*ends))
    if not tokens:
        raise reader.bad("a column is expected")
    return tokens


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
