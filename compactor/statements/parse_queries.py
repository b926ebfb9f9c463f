"""Finds the tables that a query reads, and the values that its conditions demand of their columns.

It understands only as much of a query as finding locks needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from compactor.base.errors import BadStatement
from compactor.locking.accesses import Access, Name
from compactor.locking.statement_rules import AccessKind
from compactor.statements.keywords import CLAUSES, JOINED, JOINS, QUERIES, SET_OPERATIONS
from compactor.statements.parsed_actions import Place, Query
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token

#: Words that end a list of tables in FROM outside parentheses.
_ENDS_FROM = CLAUSES | SET_OPERATIONS | JOINED | {"select", "insert", "when", "set"}
_NO_ALIAS = frozenset(("tablesample", "for", "pivot", "unpivot", "match_recognize"))
_CLAUSES_WITHOUT_LISTS = frozenset(("where", "having", "qualify", "limit"))
_BEGINS = ("(", "*", "-", "+", "~", "!", ":", "?")  #: signs with which an expression begins
#: Words of which one follows, where a keyword is one.
_FOLLOWED_BY = {
    **dict.fromkeys(("group", "order", "sort", "distribute", "cluster"), ("by",)),
    **dict.fromkeys(SET_OPERATIONS, ("all", "distinct", *QUERIES, "values", "table", "map", "reduce")),
    **dict.fromkeys(JOINS - {"join"}, tuple(JOINS)),
    "lateral": ("view",),
    "using": ("(",),
}
_OPENING = _ENDS_FROM - {"when", "set"}
_FROM = Token(kind="word", value="from")
_TABLE = Token(kind="word", value="table")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedTable:
    """A table that a query reads, with the plain values its WHERE demands of columns: ``where k = 'v' and ...``.

    ``start`` and ``end`` are those of its name in the whole text; ``aliased`` is true if another name follows.
    """

    name: Name
    where: tuple[tuple[str, str], ...] = ()
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    aliased: bool = field(default=False, compare=False)


def sources(found: Sequence[Token]) -> tuple[QueriedTable, ...]:
    """Returns every table that a query names after FROM or JOIN, including subqueries but not names defined by WITH.

    Conditions are only used if FROM has one table, so that a column cannot belong to another table.
    """
    return tuple(dict.fromkeys(_sources(found, frozenset())))


def places(found: Sequence[Token]) -> tuple[QueriedTable, ...]:
    """Returns each place at which a query names a table, in their order.

    Raises:
        BadStatement: it names one as TABLE t, which is no place known here.
    """
    for before, token, after in zip((_FROM, *found), found, found[1:], strict=False):
        if token == _TABLE and before.value != "." and after.kind in ("word", "quoted"):
            raise BadStatement(
                f"statement: TABLE {after} at {token.place} is no query of the list; write SELECT * FROM {after}"
            )
    return tuple(sorted(_sources(found, frozenset()), key=lambda one: one.start))


def _sources(found: Sequence[Token], defined: frozenset[str]) -> list[QueriedTable]:
    reader = TokenReader(found)
    read: list[QueriedTable] = []
    if reader.take("with"):
        recursive = reader.take("recursive")
        while True:
            name = frozenset((reader.name().table,))
            if reader.at("("):
                reader.group()
            reader.need("as")
            # a name means a table within its own definition, unless that is recursive
            read += _sources(reader.group(), defined | name if recursive else defined)
            defined |= name
            if not reader.take(","):
                break
    here: list[QueriedTable] = []
    joined = False
    where: tuple[tuple[str, str], ...] = ()
    clause = ""
    while not reader.ended:
        clause = _clause(reader) or clause
        if reader.at("("):
            read += _inside(reader.group(), defined)
        elif reader.at(",") and clause in _CLAUSES_WITHOUT_LISTS:
            raise reader.bad(f"no list, since {clause.upper()} has none, is expected")
        elif reader.at(",") and clause in ("on", "using") and reader.take(","):
            names, nested = _from(reader, defined)  # a join is one of several in FROM
            joined = True
            here += names
            read += nested
        elif reader.take("is", "distinct", "from") or reader.take("is", "not", "distinct", "from"):
            continue
        elif reader.take("from") or reader.take("join"):
            names, nested = _from(reader, defined)
            joined = joined or bool(here) or len(names) != 1 or bool(nested)
            here += names
            read += nested
        elif reader.take("where"):
            where = conditions(reader.rest)
        elif reader.at_any(*SET_OPERATIONS):
            read += _with_conditions(here, joined, where)
            here, joined, where = [], False, ()
            reader.skip()
        else:
            reader.skip()
    return read + _with_conditions(here, joined, where)


def conditions(found: Sequence[Token]) -> tuple[tuple[str, str], ...]:
    """Returns ``k = literal`` for each such term of a WHERE that joins its terms by AND; otherwise nothing."""
    reader = TokenReader(found)
    terms: list[list[Token]] = [[]]
    while (token := reader.next) is not None:
        if reader.at("("):
            reader.group()
            terms[-1].append(Token(kind="group", value="()"))
            continue
        if token.kind == "word" and token.value in ("or", "between", "not"):
            return ()
        if token.kind == "word" and token.value in _ENDS_FROM:
            break
        reader.skip()
        if token.kind == "word" and token.value == "and":
            terms.append([])
        else:
            terms[-1].append(token)
    return tuple(known for term in terms if (known := _equality(term)) is not None)


def _equality(term: Sequence[Token]) -> tuple[str, str] | None:
    if len(term) == 5 and term[1].value == ".":
        term = term[2:]  # the alias in front of a column
    if len(term) != 3 or term[1].value not in ("=", "==") or term[1].kind != "sign":
        return None
    column, value = (term[0], term[2]) if term[0].kind in ("word", "quoted") else (term[2], term[0])
    if column.kind not in ("word", "quoted") or value.kind not in ("text", "number"):
        return None
    return (column.value, value.value)


def _with_conditions(
    named: Sequence[QueriedTable], joined: bool, where: tuple[tuple[str, str], ...]
) -> list[QueriedTable]:
    return [replace(one, where=() if joined else where) for one in named]


def _inside(group: Sequence[Token], defined: frozenset[str]) -> list[QueriedTable]:
    """Returns the tables a parenthesis reads. FROM outside a query belongs to a function (``extract(year from d)``)."""
    if group and group[0].kind in ("word", "sign") and group[0].value in QUERIES:
        return _sources(group, defined)
    reader, read = TokenReader(group), list[QueriedTable]()
    while not reader.ended:
        if reader.at("("):
            read += _inside(reader.group(), defined)
        else:
            reader.skip()
    return read


def _from(reader: TokenReader, defined: frozenset[str]) -> tuple[list[QueriedTable], list[QueriedTable]]:
    """Returns the tables of one FROM up to its end or the next JOIN, and those its subqueries read."""
    names: list[QueriedTable] = []
    nested: list[QueriedTable] = []
    while True:
        reader.take("lateral")
        if reader.at("("):
            inner = reader.group()
            if inner and inner[0].kind in ("word", "sign") and inner[0].value in QUERIES:
                nested += _sources(inner, defined)
            else:
                nested += _sources((_FROM, *inner), defined)
        elif not reader.take("values") and not reader.at("table", "("):
            named = _named(reader)
            is_function = reader.at("(")  # range(10)
            if not is_function and not (named.name.database is None and named.name.table in defined):
                names.append(named)
        while (token := reader.next) is not None and not reader.at(","):
            if token.kind == "word" and token.value in _ENDS_FROM | JOINS:
                _must_open(reader)
                return names, nested
            if reader.at("("):  # arguments of a function, rows of VALUES, what LATERAL reads
                nested += _inside(reader.group(), defined)
            else:
                reader.skip()
        if not reader.take(","):
            return names, nested


def _clause(reader: TokenReader) -> str:
    """Returns the keyword of the clause that opens next; "" within one: CASE has WHEN, and WITHIN GROUP is no GROUP BY."""
    word = next((word for word in _OPENING if reader.at(word)), "")
    needed = _FOLLOWED_BY.get(word)
    return word if needed is None or TokenReader(reader.rest[1:2]).at_any(*needed) else ""


def _must_open(reader: TokenReader) -> None:
    """Refuses a keyword as the name of a table that FROM lists: Spark would take it for one where no clause can follow.

    Raises:
        BadStatement: it is such a name.
    """
    word, after = reader.rest[0], reader.rest[1:2]
    is_name = not after or (after[0].kind == "sign" and after[0].value not in _BEGINS)
    needed = _FOLLOWED_BY.get(word.value)
    if is_name or (needed is not None and not TokenReader(after).at_any(*needed)):
        raise BadStatement(f"statement: {word} at {word.place} is a keyword; as a name it is expected in backticks")


def _named(reader: TokenReader) -> QueriedTable:
    before = reader.rest
    name = reader.name()
    after = reader.next
    last = before[len(before) - reader.left - 1]
    aliased = after is not None and (
        after.kind == "quoted" or (after.kind == "word" and after.value not in _ENDS_FROM | JOINS | _NO_ALIAS)
    )
    return QueriedTable(name=name, start=before[0].start, end=last.end, aliased=aliased)


def reads(found: Sequence[Token], without: Name | None = None) -> tuple[Access, ...]:
    """Returns the accesses of a query to the tables it names, but those to ``without``."""
    read = (one for one in sources(found) if one.name != without)
    return tuple(Access(kind=AccessKind.READ, name=one.name, where=one.where) for one in read)


def as_query(*pieces: Sequence[Token]) -> Query:
    """Returns the query that these pieces of a statement are together.

    Raises:
        BadStatement: it writes: Spark would do that in its own catalog.
    """
    found = [token for piece in pieces for token in piece]
    for token, after in pairwise(found):
        words = token.kind == after.kind == "word"
        if words and token.value == "insert" and after.value in ("into", "overwrite"):
            raise BadStatement(
                f"statement: INSERT at {token.place} is within a query, which only reads; write it by itself"
            )
    named = (Place(table=one.name, start=one.start, end=one.end, aliased=one.aliased) for one in places(found))
    ends = tuple((piece[0].start, piece[-1].end) for piece in pieces if piece)
    return Query(pieces=ends, places=tuple(named))
