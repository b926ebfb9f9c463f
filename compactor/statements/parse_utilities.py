"""Parses what concerns compactions, transactions and locks: SHOW, ABORT and ALTER TABLE ... COMPACT."""

from __future__ import annotations

from typing import Any

from compactor.locking.accesses import Name, Spec
from compactor.statements.parsed_actions import (
    AbortCompactions,
    AbortTransactions,
    Compact,
    ShowCompactions,
    ShowLocks,
    ShowTransactions,
)
from compactor.statements.rendering import rendered
from compactor.statements.statement import Statement
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token


def show_compactions(reader: TokenReader) -> Statement:
    """Parses SHOW COMPACTIONS after these words: filters in Hive's order, each of which may be left out."""
    found: dict[str, Any] = {}
    if reader.take("compactionid"):
        reader.need("=")
        found["id"] = reader.integer("the id of a compaction")
    elif reader.take("schema") or reader.take("database"):
        found["schema"] = reader.part()
    elif not reader.ended and not reader.at_any("pool", "type", "status", "order", "limit"):
        found["table"], found["partition"] = reader.name(), reader.values()
    for word in ("pool", "type", "status"):
        if reader.take(word):
            found[word] = reader.text()
    if reader.take("order", "by"):
        found["order"] = rendered(_until(reader, "limit"))
    if reader.take("limit"):
        found["limit"] = reader.integer()
    reader.end()
    return Statement(name="SHOW COMPACTIONS", action=ShowCompactions(**found))


def show_transactions(reader: TokenReader) -> Statement:
    """Parses SHOW TRANSACTIONS after these words."""
    reader.end()
    return Statement(name="SHOW TRANSACTIONS", action=ShowTransactions())


def show_locks(reader: TokenReader) -> Statement:
    """Parses SHOW LOCKS after these words."""
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
    """Parses ABORT TRANSACTIONS and ABORT COMPACTIONS; commas between ids may be left out, as in Hive."""
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
    """Parses what follows ALTER TABLE ... COMPACT: a type, then clauses in any order, each once."""
    found: dict[str, Any] = {"type": reader.text("a type in quotes, such as 'major',")}
    while not reader.ended:
        key, value = _clause(reader)
        if key in found:
            raise reader.bad(f"{key.replace('_', ' ').upper()} once, not twice, is expected")
        found[key] = value
    return Compact(table=table, partition=partition, **found)


def _clause(reader: TokenReader) -> tuple[str, object]:
    if reader.take("and", "wait"):
        return "wait", True
    if reader.take("clustered", "into"):
        buckets = reader.integer("the number of buckets")
        reader.need("buckets")
        return "buckets", buckets
    if reader.take("order", "by"):
        return "order_by", rendered(_until(reader, "and", "clustered", "pool", "with"))
    if reader.take("pool"):
        return "pool", reader.text()
    if reader.take("with", "overwrite", "tblproperties"):
        return "properties", reader.properties()
    raise reader.bad("AND WAIT, CLUSTERED INTO n BUCKETS, ORDER BY, POOL or WITH OVERWRITE TBLPROPERTIES is expected")


def _until(reader: TokenReader, *ends: str) -> list[Token]:
    found = reader.until(lambda _: reader.at_any(*ends))
    if not found:
        raise reader.bad("a column is expected")
    return found
