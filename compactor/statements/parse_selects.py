"""Parses queries. A SELECT of columns from one table runs without Spark; Spark runs all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compactor.base.errors import BadStatement
from compactor.locking.statement_rules import Access, Name
from compactor.statements.parse_queries import build_query, find_reads, read_version
from compactor.statements.parse_writes import build_target, insert_form, parse_columns, parse_multi_insert, parse_target
from compactor.statements.parsed_actions import Action, NeedsSpark, Select, Statement
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import CLAUSES, JOINED, JOINS, SET_OPERATIONS, Token, render_filter

#: Words that cannot be a column in a list of columns.
_NO_COLUMN = frozenset(
    ("distinct", "all", "case", "cast", "null", "true", "false", "interval", "not", "from", "transform")
)
#: Words after a table's name that cannot be its alias.
_NO_ALIAS = CLAUSES | SET_OPERATIONS | JOINS | JOINED | {"tablesample", "for"}
_ENDS = _NO_ALIAS - {"where"}
#: Select lists that name no columns. They are texts, since a column may also be called ``count`` or ``*``.
_COUNT, _STAR = "count(*)", "*"


class _NeedsSpark(Exception):
    """The query is more than columns of one table; the text names the place."""


def parse_query(tokens: Sequence[Token]) -> Statement:
    """Parses SELECT, and INSERTs that follow FROM or WITH."""
    reader = TokenReader(tokens)
    writes: list[Access] = []
    before, after, columns = len(tokens), 0, None
    while reader.skip_to("insert"):
        before = min(before, len(tokens) - reader.remaining)
        reader.need("insert")
        writes.append(parse_target(reader))
        columns = parse_columns(reader)
        after = len(tokens) - reader.remaining
    _check_with(tokens)
    accesses = (*writes, *find_reads(tokens))
    if len(writes) == 1:
        action: Action = NeedsSpark(
            because=f"{str(tokens[0]).upper()} at {tokens[0].place}",
            query=build_query(tokens[:before], tokens[after:]),
            into=build_target(writes[0], columns),
        )
        return Statement(name=f"{insert_form(writes[0])} … SELECT", accesses=accesses, action=action)
    if writes:
        return parse_multi_insert(tokens)
    try:
        action = replace(_select(TokenReader(tokens)), query=build_query(tokens))
    except _NeedsSpark as error:
        action = NeedsSpark(because=str(error), query=build_query(tokens))
    except BadStatement as error:
        action = NeedsSpark(because=str(error).removeprefix("statement: "), query=build_query(tokens))
    return Statement(name="SELECT", accesses=accesses, action=action)


def _check_with(tokens: Sequence[Token]) -> None:
    """Refuses WITH in front of anything but a query or INSERT.

    Raises:
        BadStatement: another statement follows.
    """
    reader = TokenReader(tokens)
    if not reader.take("with"):
        return
    reader.take("recursive")
    while True:
        reader.name()
        reader.skip_to("as")
        reader.need("as")
        reader.group()
        if not reader.take(","):
            break
    verb = reader.next
    if not reader.at_any("select", "from", "values", "insert", "("):
        what = "nothing" if verb is None else f"{verb} at {verb.place}"
        raise BadStatement(
            f"statement: WITH at {tokens[0].place} before {what}; a query or INSERT is expected: "
            "give the query to MERGE … USING (query), or to WHERE … IN (query)"
        )


def _select(reader: TokenReader) -> Select:
    """Parses a SELECT of columns from one table.

    Raises:
        _NeedsSpark: the query is more than that.
    """
    if not reader.take("select"):
        raise _needs_spark(reader)
    column_list = _list(reader)
    if not reader.take("from"):
        raise _needs_spark(reader)
    name = _table(reader)
    as_of = read_version(reader)
    qualifiers = _alias(reader, name)
    where = render_filter(_where(reader), qualifiers) if reader.take("where") else None
    limit = reader.integer() if reader.take("limit") else None
    if not reader.ended:
        raise _needs_spark(reader)
    columns = (
        None if isinstance(column_list, str) else tuple(_unqualified(column, qualifiers) for column in column_list)
    )
    return Select(table=name, columns=columns, count=column_list == _COUNT, where=where, limit=limit, as_of=as_of)


def _list(reader: TokenReader) -> list[tuple[str, str]] | str:
    """Reads ``*`` or ``count(*)``, which are returned as texts, or columns, each with its qualifier or ""."""
    if reader.take("*"):
        return _STAR
    if reader.take("count", "(", "*", ")"):
        return _COUNT
    columns: list[tuple[str, str]] = []
    while True:
        token = reader.next
        if (
            token is None
            or token.kind not in ("word", "quoted")
            or (token.kind == "word" and token.value in _NO_COLUMN)
        ):
            raise _needs_spark(reader)
        first = reader.part()
        columns.append((first, reader.part()) if reader.take(".") else ("", first))
        if not reader.take(","):
            return columns


def _table(reader: TokenReader) -> Name:
    if reader.next is None or reader.next.kind not in ("word", "quoted"):
        raise _needs_spark(reader)
    return reader.name()


def _alias(reader: TokenReader, name: Name) -> tuple[str, ...]:
    token = reader.next
    if reader.take("as"):
        return (reader.part(),)
    if token is not None and (token.kind == "quoted" or (token.kind == "word" and token.value not in _NO_ALIAS)):
        return (reader.part(),)
    return (name.table,)


def _where(reader: TokenReader) -> list[Token]:
    condition = reader.until(lambda token: token.kind == "word" and token.value in _ENDS)
    if not condition:
        raise _needs_spark(reader)
    return condition


def _unqualified(column: tuple[str, str], qualifiers: tuple[str, ...]) -> str:
    qualifier, name = column
    if qualifier and qualifier not in qualifiers:
        raise _NeedsSpark(f"{qualifier}.{name}, since no table is called {qualifier}")
    return name


def _needs_spark(reader: TokenReader) -> _NeedsSpark:
    token = reader.next
    return _NeedsSpark("the end of it" if token is None else f"{str(token).upper()!r} at {token.place}")
