"""Parses queries: SELECT of columns from one table is read without Spark, everything else is Spark's, as its text is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from compactor.base.errors import BadStatement
from compactor.locking.accesses import Access, Name
from compactor.statements.keywords import CLAUSES, JOINED, JOINS, SET_OPERATIONS
from compactor.statements.parse_multi_inserts import multi_insert
from compactor.statements.parse_queries import as_query, reads
from compactor.statements.parse_writes import form_of, into, target
from compactor.statements.parsed_actions import Action, NeedsSpark, Select
from compactor.statements.rendering import rendered
from compactor.statements.statement import Statement
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token

#: Words that are no column in a list of columns.
_NO_COLUMN = frozenset(
    ("distinct", "all", "case", "cast", "null", "true", "false", "interval", "not", "from", "transform")
)
#: Words after a table's name that are no alias of it.
_NO_ALIAS = CLAUSES | SET_OPERATIONS | JOINS | JOINED | {"tablesample", "for"}
_ENDS = _NO_ALIAS - {"where"}
#: Lists that name no columns. A column may be called ``count`` or ``*``, so no list of names stands for these.
_COUNT, _STAR = "count(*)", "*"


class _Richer(Exception):
    """A query that is more than columns of one table; its text names the place."""


def query(found: Sequence[Token]) -> Statement:
    """Parses SELECT, and one or several INSERTs after FROM or WITH."""
    reader = TokenReader(found)
    writes: list[Access] = []
    before, after = len(found), 0
    while reader.skip_to("insert"):
        before = min(before, len(found) - reader.left)
        reader.need("insert")
        writes.append(target(reader))
        after = len(found) - reader.left
    _must_be_query(found)
    accesses = (*writes, *reads(found))
    if len(writes) == 1:
        action: Action = NeedsSpark(
            because=f"{str(found[0]).upper()} at {found[0].place}",
            query=as_query(found[:before], found[after:]),
            into=into(writes[0], None),
        )
        return Statement(name=f"{form_of(writes[0])} … SELECT", accesses=accesses, action=action)
    if writes:
        return multi_insert(found)
    try:
        action = replace(_select(TokenReader(found)), query=as_query(found))
    except _Richer as error:
        action = NeedsSpark(because=str(error), query=as_query(found))
    except BadStatement as error:
        action = NeedsSpark(because=str(error).removeprefix("statement: "), query=as_query(found))
    return Statement(name="SELECT", accesses=accesses, action=action)


def _must_be_query(found: Sequence[Token]) -> None:
    """Refuses WITH before anything but a query or INSERT: a statement is what its own first word says.

    Raises:
        BadStatement: it is something else.
    """
    reader = TokenReader(found)
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
            f"statement: WITH at {found[0].place} before {what}; a query or INSERT is expected: "
            "give the query to MERGE … USING (query), or to WHERE … IN (query)"
        )


def _select(reader: TokenReader) -> Select:
    """Parses a SELECT of columns from one table.

    Raises:
        _Richer: it is more than that.
    """
    if not reader.take("select"):
        raise _richer(reader)
    listed = _list(reader)
    if not reader.take("from"):
        raise _richer(reader)
    name = _table(reader)
    qualifiers = _alias(reader, name)
    where = rendered(_where(reader), qualifiers) if reader.take("where") else None
    limit = reader.integer() if reader.take("limit") else None
    if not reader.ended:
        raise _richer(reader)
    columns = None if isinstance(listed, str) else tuple(_unqualified(one, qualifiers) for one in listed)
    return Select(table=name, columns=columns, count=listed == _COUNT, where=where, limit=limit)


def _list(reader: TokenReader) -> list[tuple[str, str]] | str:
    """Reads ``*`` or ``count(*)``, which are texts, or columns, each with its qualifier; an empty one is none."""
    if reader.take("*"):
        return _STAR
    if reader.take("count", "(", "*", ")"):
        return _COUNT
    found: list[tuple[str, str]] = []
    while True:
        token = reader.next
        if (
            token is None
            or token.kind not in ("word", "quoted")
            or (token.kind == "word" and token.value in _NO_COLUMN)
        ):
            raise _richer(reader)
        first = reader.part()
        found.append((first, reader.part()) if reader.take(".") else ("", first))
        if not reader.take(","):
            return found


def _table(reader: TokenReader) -> Name:
    if reader.next is None or reader.next.kind not in ("word", "quoted"):
        raise _richer(reader)
    return reader.name()


def _alias(reader: TokenReader, name: Name) -> tuple[str, ...]:
    token = reader.next
    if reader.take("as"):
        return (reader.part(),)
    if token is not None and (token.kind == "quoted" or (token.kind == "word" and token.value not in _NO_ALIAS)):
        return (reader.part(),)
    return (name.table,)


def _where(reader: TokenReader) -> list[Token]:
    found = reader.until(lambda token: token.kind == "word" and token.value in _ENDS)
    if not found:
        raise _richer(reader)
    return found


def _unqualified(column: tuple[str, str], qualifiers: tuple[str, ...]) -> str:
    qualifier, name = column
    if qualifier and qualifier not in qualifiers:
        raise _Richer(f"{qualifier}.{name}, since no table is called {qualifier}")
    return name


def _richer(reader: TokenReader) -> _Richer:
    token = reader.next
    return _Richer("the end of it" if token is None else f"{str(token).upper()!r} at {token.place}")
