"""Parses texts into statements. Each has its action, and the accesses from which its locks follow.

The list of forms is closed (``statement_list``). Any other statement is refused with its place. Some forms are only
parsed for their locks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from compactor.base.errors import BadStatement
from compactor.statements import (
    parse_alterations,
    parse_changes,
    parse_definitions,
    parse_utilities,
    parse_writes,
    parsed_actions,
)
from compactor.statements.parse_selects import parse_query
from compactor.statements.parsed_actions import (
    Commit,
    CreateTableAs,
    ExplainLocks,
    NeedsSpark,
    Rollback,
    Select,
    StartTransaction,
    Statement,
    Use,
)
from compactor.statements.statement_list import not_run
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import QUERIES, Token, quote_words, split_statements, tokenize

#: Actions that change nothing, so that no right to change is needed.
READING = (
    parsed_actions.ShowCompactions,
    parsed_actions.ShowTransactions,
    parsed_actions.ShowLocks,
    parsed_actions.ExplainLocks,
    parsed_actions.Use,
    parsed_actions.ShowDatabases,
    parsed_actions.ShowTables,
    parsed_actions.ShowPartitions,
    parsed_actions.ShowCreateTable,
    parsed_actions.Describe,
)
_IN_TRANSACTION = (*READING, parsed_actions.Insert, parsed_actions.Update, parsed_actions.Delete, parsed_actions.Select)


def parse(text: str) -> Statement:
    """Parses a text that is one statement.

    Raises:
        BadStatement: the text is no statement of the list, or breaks off; the message has the place.
    """
    return _parse_tokens(text, tokenize(text))


def parse_all(text: str) -> tuple[Statement, ...]:
    """Parses the statements of ``text``, separated by semicolons.

    Raises:
        BadStatement: a statement is not on the list, or the text is empty.
    """
    statements = split_statements(text)
    if not statements:
        raise BadStatement("statement: it is empty")
    return tuple(_parse_tokens(text, tokens) for tokens in statements)


def _parse_tokens(text: str, tokens: Sequence[Token]) -> Statement:
    if not tokens:
        raise BadStatement("statement: it is empty")
    statement = _parse_form(tokens)
    return replace(statement, place=tokens[0].place, text=text[tokens[0].start : tokens[-1].end])


def _parse_form(tokens: Sequence[Token]) -> Statement:
    reader = TokenReader(tokens)
    for opening, form in _FORMS:
        if reader.take(*opening):
            return form(reader)
    if reader.at_any(*QUERIES):
        return parse_query(tokens)
    raise BadStatement(
        f"statement {quote_words(tokens)!r} at {tokens[0].place} is not on the list of statements: SELECT, INSERT, UPDATE, "
        "DELETE, MERGE, LOAD DATA, TRUNCATE TABLE, CREATE, DROP, ALTER TABLE, SHOW, DESCRIBE, ABORT, EXPLAIN LOCKS, USE, "
        "START TRANSACTION, COMMIT, ROLLBACK, ANALYZE TABLE and MSCK; see docs/sql.md"
    )


def _explain(reader: TokenReader) -> Statement:
    """Parses EXPLAIN, which runs and locks nothing.

    The action of EXPLAIN LOCKS holds the explained statement.
    """
    if not reader.take("locks"):
        return Statement(name="EXPLAIN", action=not_run("EXPLAIN"))
    if reader.ended:
        raise reader.bad("a statement is expected")
    if reader.at("explain"):
        raise reader.bad("another statement than EXPLAIN is expected")
    return Statement(name="EXPLAIN LOCKS", action=ExplainLocks(explained=_parse_form(reader.rest)))


def _create(reader: TokenReader) -> Statement:
    """Parses CREATE, including the query of CREATE TABLE … AS."""
    query_tokens = parse_definitions.find_query_after_as(reader)
    statement = parse_definitions.create(reader)
    match statement.action, parse_query(query_tokens).action if query_tokens else None:
        case CreateTableAs() as creation, Select(count=False) as select:
            return replace(statement, action=replace(creation, select=select))
        case CreateTableAs() as creation, NeedsSpark(because=because):
            return replace(statement, action=replace(creation, because=because))
        case CreateTableAs() as creation, _:
            return replace(statement, action=replace(creation, because="count(*)"))
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
    (("show",), parse_utilities.show),
    (("describe",), parse_utilities.describe),
    (("desc",), parse_utilities.describe),
    (("abort",), parse_utilities.abort),
    (("use",), _use),
    (("start",), _start),
    (("commit",), _commit),
    (("rollback",), _rollback),
)


def parse_script(text: str) -> tuple[Statement, ...]:
    """Parses all statements of ``text`` before any of them runs.

    Raises:
        BadStatement: a statement is not on the list, a transaction holds a statement that it must not (in Hive:
            ``Operation … is not allowed in a transaction``), or a transaction does not end within the text.
    """
    statements = parse_all(text)
    _check_transactions(statements)
    return statements


def only_reads(statements: Sequence[Statement]) -> bool:
    """Tells whether all statements only read metadata.

    A SELECT does not count, because it opens a snapshot.
    """
    return all(isinstance(statement.action, READING) for statement in statements)


def _check_transactions(statements: Sequence[Statement]) -> None:
    opened: Statement | None = None
    for statement in statements:
        match statement.action:
            case parsed_actions.StartTransaction():
                if opened is not None:
                    raise BadStatement(
                        f"START TRANSACTION at {statement.place}: the one at {opened.place} has not ended"
                    )
                opened = statement
            case parsed_actions.Commit() | parsed_actions.Rollback():
                if opened is None:
                    raise BadStatement(
                        f"{statement.name} at {statement.place}: no transaction was started in this text"
                    )
                opened = None
            case action if opened is not None and not isinstance(action, _IN_TRANSACTION):
                raise BadStatement(
                    f"{statement.name} at {statement.place} is not allowed in a transaction, which began at {opened.place}; "
                    "INSERT, UPDATE, DELETE, SELECT, SHOW and DESCRIBE are"
                )
    if opened is not None:
        raise BadStatement(f"START TRANSACTION at {opened.place}: the text ends without its COMMIT or ROLLBACK")
