"""Parses texts into statements, each with the accesses that its locks follow from and its action: one parse for both.

A closed list of forms (``catalogue``); anything else is refused with its place. Some forms are parsed for their locks alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compactor.base.errors import BadStatement
from compactor.statements import (
    parse_alterations,
    parse_changes,
    parse_definitions,
    parse_shows,
    parse_utilities,
    parse_writes,
)
from compactor.statements.keywords import QUERIES
from compactor.statements.parse_selects import query
from compactor.statements.parsed_actions import (
    Commit,
    CreateTableAs,
    ExplainLocks,
    NeedsSpark,
    Rollback,
    Select,
    StartTransaction,
    Use,
)
from compactor.statements.statement import Statement
from compactor.statements.statement_list import not_run
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token, split, tokens, words


def parse(text: str) -> Statement:
    """Parses ``text``, one statement.

    Raises:
        BadStatement: it is none of the list, or breaks off; the message has the place.
    """
    return _parsed(text, tokens(text))


def parse_all(text: str) -> tuple[Statement, ...]:
    """Parses the statements of ``text``, separated by semicolons.

    Raises:
        BadStatement: one is none of the list, or there is none.
    """
    found = split(text)
    if not found:
        raise BadStatement("statement: it is empty")
    return tuple(_parsed(text, one) for one in found)


def _parsed(text: str, found: Sequence[Token]) -> Statement:
    if not found:
        raise BadStatement("statement: it is empty")
    statement = _form(found)
    return replace(statement, place=found[0].place, text=text[found[0].start : found[-1].end])


def _form(found: Sequence[Token]) -> Statement:
    reader = TokenReader(found)
    for opening, form in _FORMS:
        if reader.take(*opening):
            return form(reader)
    if reader.at_any(*QUERIES):
        return query(found)
    raise BadStatement(
        f"statement {words(found)!r} at {found[0].place} is not on the list of statements: SELECT, INSERT, UPDATE, DELETE, "
        "MERGE, LOAD DATA, TRUNCATE TABLE, CREATE, DROP, ALTER TABLE, SHOW, DESCRIBE, ABORT, EXPLAIN LOCKS, USE, START "
        "TRANSACTION, COMMIT, ROLLBACK, ANALYZE TABLE and MSCK; see docs/sql.md"
    )


def _explain(reader: TokenReader) -> Statement:
    """Parses EXPLAIN, which runs and locks nothing; EXPLAIN LOCKS has the explained statement in its action."""
    if not reader.take("locks"):
        return Statement(name="EXPLAIN", action=not_run("EXPLAIN"))
    if reader.ended:
        raise reader.bad("a statement is expected")
    if reader.at("explain"):
        raise reader.bad("another statement than EXPLAIN is expected")
    return Statement(name="EXPLAIN LOCKS", action=ExplainLocks(explained=_form(reader.rest)))


def _create(reader: TokenReader) -> Statement:
    """Parses CREATE, and in CREATE TABLE … AS the query, too."""
    found = parse_definitions.query_after_as(reader)
    statement = parse_definitions.create(reader)
    match statement.action, query(found).action if found else None:
        case CreateTableAs() as made, Select(count=False) as select:
            return replace(statement, action=replace(made, select=select))
        case CreateTableAs() as made, NeedsSpark(because=because):
            return replace(statement, action=replace(made, because=because))
        case CreateTableAs() as made, _:
            return replace(statement, action=replace(made, because="count(*)"))
    return statement


def _use(reader: TokenReader) -> Statement:
    action = Use(database=reader.part())
    reader.end()
    return Statement(name="USE", action=action)


def _start(reader: TokenReader) -> Statement:
    reader.need("transaction")
    reader.end()
    return Statement(name="START TRANSACTION", action=StartTransaction())


def _commit(reader: TokenReader) -> Statement:
    reader.take("work")
    reader.end()
    return Statement(name="COMMIT", action=Commit())


def _rollback(reader: TokenReader) -> Statement:
    reader.take("work")
    reader.end()
    return Statement(name="ROLLBACK", action=Rollback())


_FORMS: tuple[tuple[tuple[str, ...], Callable[[TokenReader], Statement]], ...] = (
    (("explain",), _explain),
    (("insert",), parse_writes.insert),
    (("update",), parse_changes.update),
    (("delete",), parse_changes.delete),
    (("merge",), parse_changes.merge),
    (("load",), parse_writes.load),
    (("truncate",), parse_definitions.truncate),
    (("analyze",), parse_definitions.analyze),
    (("msck",), parse_definitions.msck),
    (("create",), _create),
    (("drop",), parse_definitions.drop),
    (("alter",), parse_alterations.alter),
    (("show",), parse_shows.show),
    (("describe",), parse_shows.describe),
    (("desc",), parse_shows.describe),
    (("abort",), parse_utilities.abort),
    (("use",), _use),
    (("start",), _start),
    (("commit",), _commit),
    (("rollback",), _rollback),
)
