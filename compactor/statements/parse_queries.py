"""Finds the tables that a query reads, and the values that its conditions require of their columns.

It parses only as much of a query as is needed to find its locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from compactor.base.errors import BadStatement
from compactor.locking.statement_rules import Access, AccessKind, Name
from compactor.statements.parsed_actions import Query, TablePlace
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import CLAUSES, JOINED, JOINS, QUERIES, SET_OPERATIONS, Token

#: Words that end a list of tables in FROM outside parentheses.
_ENDS_FROM = CLAUSES | SET_OPERATIONS | JOINED | {"select", "insert", "when", "set"}
_NO_ALIAS = frozenset(("tablesample", "for", "pivot", "unpivot", "match_recognize"))
_CLAUSES_WITHOUT_LISTS = frozenset(("where", "having", "qualify", "limit"))
_BEGINS = ("(", "*", "-", "+", "~", "!", ":", "?")  #: signs with which an expression begins
#: Keywords that count as keywords only if one of these words follows.
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
    """A table that a query reads, with the plain values that its WHERE requires.

    For example ``where k = 'v' and ...``.

    ``start`` and ``end`` are offsets of its name and ``version`` in the whole text. ``aliased`` is true if an alias follows.
    """

    name: Name
    where: tuple[tuple[str, str], ...] = ()
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    aliased: bool = field(default=False, compare=False)
    version: int | None = field(default=None, compare=False)


def find_queried_tables(tokens: Sequence[Token]) -> tuple[QueriedTable, ...]:
    """Returns the tables that a query names after FROM or JOIN, also in subqueries.

    Names that WITH defines are left out.

    Conditions are only used if FROM has a single table; otherwise a column could belong to another table.
    """
    return tuple(dict.fromkeys(_find_tables(tokens, frozenset())))


def locate_tables(tokens: Sequence[Token]) -> tuple[QueriedTable, ...]:
    """Returns each place where a query names a table, in order.

    Raises:
        BadStatement: the query has TABLE t, whose table this parser cannot place.
    """
    for before, token, after in zip((_FROM, *tokens), tokens, tokens[1:], strict=False):
        if token == _TABLE and before.value != "." and after.kind in ("word", "quoted"):
            raise BadStatement(
                f"statement: TABLE {after} at {token.place} is not on the list of queries; write SELECT * FROM {after}"
            )
    return tuple(sorted(_find_tables(tokens, frozenset()), key=lambda table: table.start))


def _find_tables(tokens: Sequence[Token], defined: frozenset[str]) -> list[QueriedTable]:
    reader = TokenReader(tokens)
    tables: list[QueriedTable] = []
    if reader.take("with"):
        recursive = reader.take("recursive")
        while True:
            name = frozenset((reader.name().table,))
            if reader.at("("):
                reader.group()
            reader.need("as")
            # a name means a table within its own definition, unless that is recursive
            tables += _find_tables(reader.group(), defined | name if recursive else defined)
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
            tables += _find_in_group(reader.group(), defined)
        elif reader.at(",") and clause in _CLAUSES_WITHOUT_LISTS:
            raise reader.bad(f"no list, since {clause.upper()} has none, is expected")
        elif reader.at(",") and clause in ("on", "using") and reader.take(","):
            names, nested = _read_from(reader, defined)  # a join is one of several in FROM
            joined = True
            here += names
            tables += nested
        elif reader.take("is", "distinct", "from") or reader.take("is", "not", "distinct", "from"):
            continue
        elif reader.take("from") or reader.take("join"):
            names, nested = _read_from(reader, defined)
            joined = joined or bool(here) or len(names) != 1 or bool(nested)
            here += names
            tables += nested
        elif reader.take("where"):
            where = find_conditions(reader.rest)
        elif reader.at_any(*SET_OPERATIONS):
            tables += _with_conditions(here, joined, where)
            here, joined, where = [], False, ()
            reader.skip()
        else:
            reader.skip()
    return tables + _with_conditions(here, joined, where)


def find_conditions(tokens: Sequence[Token]) -> tuple[tuple[str, str], ...]:
    """Returns each term ``k = literal`` of a WHERE whose terms are joined by AND.

    Returns nothing for any other WHERE.
    """
    reader = TokenReader(tokens)
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
    tables: Sequence[QueriedTable], joined: bool, where: tuple[tuple[str, str], ...]
) -> list[QueriedTable]:
    return [replace(table, where=() if joined else where) for table in tables]


def _find_in_group(group: Sequence[Token], defined: frozenset[str]) -> list[QueriedTable]:
    """Returns the tables a parenthesis reads.

    FROM outside a query belongs to a function (``extract(year from d)``).
    """
    if group and group[0].kind in ("word", "sign") and group[0].value in QUERIES:
        return _find_tables(group, defined)
    reader, tables = TokenReader(group), list[QueriedTable]()
    while not reader.ended:
        if reader.at("("):
            tables += _find_in_group(reader.group(), defined)
        else:
            reader.skip()
    return tables


def _read_from(reader: TokenReader, defined: frozenset[str]) -> tuple[list[QueriedTable], list[QueriedTable]]:
    """Returns the tables of one FROM, up to its end or the next JOIN, and the tables of its subqueries."""
    names: list[QueriedTable] = []
    nested: list[QueriedTable] = []
    while True:
        reader.take("lateral")
        if reader.at("("):
            inner = reader.group()
            if inner and inner[0].kind in ("word", "sign") and inner[0].value in QUERIES:
                nested += _find_tables(inner, defined)
            else:
                nested += _find_tables((_FROM, *inner), defined)
        elif not reader.take("values") and not reader.at("table", "("):
            named = _read_table(reader)
            is_function = reader.at("(")  # range(10)
            if not is_function and not (named.name.database is None and named.name.table in defined):
                names.append(named)
        while (token := reader.next) is not None and not reader.at(","):
            if token.kind == "word" and token.value in _ENDS_FROM | JOINS:
                _must_open(reader)
                return names, nested
            if reader.at("("):  # arguments of a function, rows of VALUES, what LATERAL reads
                nested += _find_in_group(reader.group(), defined)
            else:
                reader.skip()
        if not reader.take(","):
            return names, nested


def _clause(reader: TokenReader) -> str:
    """Returns the keyword of the clause that opens next, or "" within one.

    The GROUP of WITHIN GROUP opens none.
    """
    word = next((word for word in _OPENING if reader.at(word)), "")
    needed = _FOLLOWED_BY.get(word)
    return word if needed is None or TokenReader(reader.rest[1:2]).at_any(*needed) else ""


def _must_open(reader: TokenReader) -> None:
    """Refuses a keyword as a table's name in FROM: Spark takes it for a name where no clause can follow.

    Raises:
        BadStatement: the keyword stands where a name does.
    """
    word, after = reader.rest[0], reader.rest[1:2]
    is_name = not after or (after[0].kind == "sign" and after[0].value not in _BEGINS)
    needed = _FOLLOWED_BY.get(word.value)
    if is_name or (needed is not None and not TokenReader(after).at_any(*needed)):
        raise BadStatement(f"statement: {word} at {word.place} is a keyword; as a name it needs backticks")


def _read_table(reader: TokenReader) -> QueriedTable:
    before = reader.rest
    name = reader.name()
    version = read_version(reader)
    after = reader.next
    last = before[len(before) - reader.remaining - 1]
    aliased = after is not None and (
        after.kind == "quoted" or (after.kind == "word" and after.value not in _ENDS_FROM | JOINS | _NO_ALIAS)
    )
    return QueriedTable(name=name, start=before[0].start, end=last.end, aliased=aliased, version=version)


def read_version(reader: TokenReader) -> int | None:
    """Reads ``FOR SYSTEM_VERSION AS OF 17``, as Hive and Spark spell it for Iceberg."""
    if not reader.take("for", "system_version", "as", "of"):
        return None
    return reader.integer()


def find_reads(tokens: Sequence[Token], without: Name | None = None) -> tuple[Access, ...]:
    """Returns the accesses of a query to the tables it names, except ``without``."""
    tables = (table for table in find_queried_tables(tokens) if table.name != without)
    return tuple(Access(kind=AccessKind.READ, name=table.name, where=table.where) for table in tables)


def build_query(*pieces: Sequence[Token]) -> Query:
    """Joins pieces of a statement into one query.

    Raises:
        BadStatement: the query writes; Spark would do that in its own catalog.
    """
    tokens = [token for piece in pieces for token in piece]
    for token, after in pairwise(tokens):
        words = token.kind == after.kind == "word"
        if words and token.value == "insert" and after.value in ("into", "overwrite"):
            raise BadStatement(
                f"statement: INSERT at {token.place} is within a query, which only reads; make it a statement of its own"
            )
    table_places = (
        TablePlace(table=table.name, start=table.start, end=table.end, aliased=table.aliased, version=table.version)
        for table in locate_tables(tokens)
    )
    ends = tuple((piece[0].start, piece[-1].end) for piece in pieces if piece)
    return Query(pieces=ends, places=tuple(table_places))
