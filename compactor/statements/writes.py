"""Parses INSERT, UPDATE, DELETE, MERGE and LOAD DATA."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from compactor.errors import BadStatement
from compactor.locking.accesses import Access, Name
from compactor.locking.statement_rules import AccessKind
from compactor.statements.actions import Action, Delete, Insert, Literal, NeedsSpark, Place, Query, Target, Update
from compactor.statements.catalogue import not_run
from compactor.statements.keywords import QUERIES
from compactor.statements.queries import conditions, places, reads, sources
from compactor.statements.reader import TokenReader
from compactor.statements.rendering import rendered
from compactor.statements.statement import Statement
from compactor.statements.tokens import Token

#: Words that no condition of a row change may have outside parentheses: LIMIT or a second table would be lost.
_NO_CONDITION = frozenset(
    ("from", "using", "join", "select", "insert", "lateral", "limit", "order", "sort", "distribute", "cluster", "group")
) | frozenset(("having", "union", "intersect", "except", "minus", "where", "set", "update", "delete", "merge"))
_BRANCHES = {"update": AccessKind.UPDATE, "delete": AccessKind.DELETE, "insert": AccessKind.MERGE_INSERT}


def target(reader: TokenReader) -> Access:
    """Parses what follows INSERT up to the name and the partition of its table."""
    overwrite = reader.take("overwrite")
    if not overwrite:
        reader.need("into")
    if overwrite and (reader.at("directory") or reader.at("local", "directory")):
        raise reader.bad(
            "a table (INSERT OVERWRITE DIRECTORY writes no table; explain the locks of its query) is expected"
        )
    reader.take("table")
    kind = AccessKind.INSERT_OVERWRITE if overwrite else AccessKind.INSERT
    return Access(kind=kind, name=reader.name(), partition=reader.partition())


def form_of(access: Access) -> str:
    """Returns the name of an INSERT."""
    return "INSERT OVERWRITE" if access.kind is AccessKind.INSERT_OVERWRITE else "INSERT INTO"


def insert(reader: TokenReader) -> Statement:
    """Parses INSERT ... VALUES, and INSERT ... SELECT for Spark."""
    written = target(reader)
    conditional = reader.take("if", "not", "exists")
    columns = _columns(reader)
    if not reader.at_any("values", *QUERIES):
        raise reader.bad("VALUES or a query is expected")
    read = reads(reader.rest)
    if conditional:
        name = "INSERT OVERWRITE … IF NOT EXISTS"
        return Statement(name=name, accesses=(written, *read), action=not_run(name))
    values = reader.rest
    if not reader.take("values"):
        begin = reader.next
        because = f"its query at {begin.place}" if begin is not None else "its query"
        name = f"{form_of(written)} … SELECT"
        queried = NeedsSpark(because=because, query=as_query(reader.rest), into=into(written, columns))
        return Statement(name=name, accesses=(written, *read), action=queried)
    rows = _rows(reader)
    action: Action
    if isinstance(rows, str):
        action = NeedsSpark(because=rows, query=as_query(values), into=into(written, columns))
    else:
        action = _insert(written, columns, rows)
    return Statement(name=f"{form_of(written)} … VALUES", accesses=(written, *read), action=action)


def _insert(written: Access, columns: tuple[str, ...] | None, rows: tuple[tuple[Literal, ...], ...]) -> Insert:
    overwrite = written.kind is AccessKind.INSERT_OVERWRITE
    return Insert(table=written.name, overwrite=overwrite, partition=written.partition, columns=columns, rows=rows)


def _columns(reader: TokenReader) -> tuple[str, ...] | None:
    if not reader.at("(") or TokenReader(reader.rest[1:2]).at_any(*QUERIES):
        return None
    return reader.names()


def as_query(*pieces: Sequence[Token]) -> Query:
    """Returns the query that these pieces of a statement are together."""
    found = [token for piece in pieces for token in piece]
    named = (Place(table=one.name, start=one.start, end=one.end, aliased=one.aliased) for one in places(found))
    ends = tuple((piece[0].start, piece[-1].end) for piece in pieces if piece)
    return Query(pieces=ends, places=tuple(named))


def into(written: Access, columns: tuple[str, ...] | None) -> Target:
    """Returns the target of an INSERT."""
    overwrite = written.kind is AccessKind.INSERT_OVERWRITE
    return Target(table=written.name, overwrite=overwrite, partition=written.partition, columns=columns)


def _rows(reader: TokenReader) -> tuple[tuple[Literal, ...], ...] | str:
    """Parses the rows of VALUES; returns what needs Spark, since it is no literal."""
    rows: list[tuple[Literal, ...]] = []
    while True:
        opening = reader.next
        reader.need("(")
        row: list[Literal] = []
        while True:
            begin = reader.next
            value = _literal(reader)
            if value is None or not reader.at_any(",", ")"):
                where = begin.place if begin is not None else "the end"
                return f"the value at {where}, which is no literal"
            row.append(value)
            if not reader.take(","):
                break
        reader.need(")")
        if rows and len(row) != len(rows[0]) and opening is not None:
            raise BadStatement(
                f"statement: the row at {opening.place} has {len(row)} values, the first {len(rows[0])}; all need as many"
            )
        rows.append(tuple(row))
        if not reader.take(","):
            break
    reader.end()
    return tuple(rows)


def _literal(reader: TokenReader) -> Literal | None:
    sign = "-" if reader.take("-") else ""
    if not sign:
        reader.take("+")
    token = reader.skip()
    if token is None:
        return None
    if token.kind == "number":
        return Literal(value=Decimal(sign + token.value))
    if sign:
        return None
    if token.kind == "text":
        return Literal(value=token.value)
    if token.kind != "word":
        return None
    if token.value in ("date", "timestamp") and reader.next is not None and reader.next.kind == "text":
        return Literal(value=reader.text(), word=token.value.upper())
    known: dict[str, bool | None] = {"true": True, "false": False, "null": None}
    return Literal(value=known[token.value]) if token.value in known else None


def update(reader: TokenReader) -> Statement:
    """Parses UPDATE."""
    name = reader.name()
    qualifiers = _qualifiers(reader, name, "set")
    reader.need("set")
    assignments: list[tuple[str, str]] = []
    every = reader.rest
    while True:
        column = _column(reader, qualifiers)
        reader.need("=")
        value = _until(reader, ",", "where")
        if not value:
            raise reader.bad("a value is expected")
        assignments.append((column, rendered(value, qualifiers)))
        if not reader.take(","):
            break
    if len({column for column, _ in assignments}) < len(assignments):
        raise reader.bad(f"{', '.join(column for column, _ in assignments)} are set, each column once is expected")
    where, found = _condition(reader, qualifiers)
    change = Access(kind=AccessKind.UPDATE, name=name, where=conditions(found), moves=True)
    action = Update(table=name, assignments=tuple(assignments), where=where)
    return Statement(name="UPDATE", accesses=(change, *_others(every, name)), action=action)


def delete(reader: TokenReader) -> Statement:
    """Parses DELETE."""
    reader.need("from")
    name = reader.name()
    qualifiers = _qualifiers(reader, name, "where")
    every = reader.rest
    where, found = _condition(reader, qualifiers)
    change = Access(kind=AccessKind.DELETE, name=name, where=conditions(found))
    return Statement(name="DELETE", accesses=(change, *_others(every, name)), action=Delete(table=name, where=where))


def _qualifiers(reader: TokenReader, name: Name, following: str) -> tuple[str, ...]:
    """Reads the alias of a table; returns the names by which its columns may be called."""
    if reader.take("as"):
        return (reader.part(),)
    token = reader.next
    if token is not None and token.kind in ("word", "quoted") and not reader.at(following):
        if token.value in _NO_CONDITION and token.kind == "word":
            raise reader.bad(f"{following.upper()} or the end is expected")
        return (reader.part(),)
    return (name.table,)


def _column(reader: TokenReader, qualifiers: tuple[str, ...]) -> str:
    first = reader.part()
    return reader.part() if first in qualifiers and reader.take(".") else first


def _until(reader: TokenReader, *ends: str) -> list[Token]:
    """Reads tokens up to the first of ``ends`` outside parentheses."""

    def ends_here(token: Token) -> bool:
        if reader.at_any(*ends):
            return True
        if token.kind == "word" and token.value in _NO_CONDITION and not _is_called(reader):
            raise reader.bad("a value, WHERE or the end is expected")
        return False

    return reader.until(ends_here)


def _is_called(reader: TokenReader) -> bool:
    """Tells whether the next word is a function, or the end of IS [NOT] DISTINCT FROM."""
    following = reader.rest[1:2]
    if following and following[0].value == "(" and following[0].kind == "sign":
        return True
    return reader.at("from") and reader.before is not None and reader.before.value == "distinct"


def _condition(reader: TokenReader, qualifiers: tuple[str, ...]) -> tuple[str | None, list[Token]]:
    """Reads WHERE and what follows it; None without one."""
    if reader.ended:
        return None, []
    reader.need("where")
    found = _until(reader)
    if not found:
        raise reader.bad("a condition is expected")
    return rendered(found, qualifiers), found


def _others(found: Sequence[Token], name: Name) -> tuple[Access, ...]:
    """Returns the tables in subqueries, which are read under locks of their own; the changed table is not."""
    return reads(found, without=name)


def merge(reader: TokenReader) -> Statement:
    """Parses MERGE for its locks and for Spark."""
    reader.need("into")
    name = reader.name()
    reader.skip_to("using")
    reader.need("using")
    read = [s for s in sources((Token(kind="word", value="from"), *reader.rest)) if s.name != name]
    branches: dict[AccessKind, None] = {}
    words = [token.value for token in reader.rest if token.kind == "word"]
    for before, word in pairwise(words):
        if before == "then" and word in _BRANCHES:
            branches[_BRANCHES[word]] = None
    if not branches:
        while reader.skip() is not None:
            pass
        raise reader.bad("WHEN … THEN UPDATE, DELETE or INSERT is expected")
    writes = tuple(Access(kind=kind, name=name) for kind in branches)
    others = tuple(Access(kind=AccessKind.READ, name=s.name) for s in read)
    return Statement(name="MERGE", accesses=(*writes, *others), action=not_run("MERGE"))


def load(reader: TokenReader) -> Statement:
    """Parses LOAD DATA for its locks."""
    reader.need("data")
    if not reader.skip_to("overwrite", "into"):
        raise reader.bad("INTO TABLE is expected")
    overwrite = reader.take("overwrite")
    reader.need("into", "table")
    kind = AccessKind.INSERT_OVERWRITE if overwrite else AccessKind.INSERT
    access = Access(kind=kind, name=reader.name(), partition=reader.partition())
    return Statement(name="LOAD DATA", accesses=(access,), action=not_run("LOAD DATA"))
