"""Parses statements about compactions, transactions and locks: SHOW, ABORT and ALTER TABLE ... COMPACT."""

from __future__ import annotations

from typing import Any

from compactor.locking.statement_rules import Name, Spec
from compactor.statements.parsed_actions import (
    AbortCompactions,
    AbortTransactions,
    Compact,
    ShowCompactions,
    ShowLocks,
    ShowTransactions,
)
from compactor.statements.rendering import render_filter
from compactor.statements.statement import Statement
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token


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
