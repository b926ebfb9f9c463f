"""Parses INSERT, also several of one query (FROM … INSERT … INSERT …), and LOAD DATA."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from compactor.base.errors import BadStatement
from compactor.locking.statement_rules import Access, AccessKind
from compactor.statements.parse_queries import build_query, find_reads
from compactor.statements.parsed_actions import (
    Action,
    BranchInsert,
    Insert,
    InsertTarget,
    Load,
    MultiInsert,
    NeedsSpark,
    NotRun,
    Query,
    Statement,
    ValuesLiteral,
)
from compactor.statements.statement_list import not_run
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import QUERIES, Token

NAME = "MULTI INSERT"
#: Functions of Spark that return another value at each call.
_RANDOM = frozenset(
    (
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
    )
)


def parse_target(reader: TokenReader) -> Access:
    """Parses what follows INSERT, up to the name and partition of the table."""
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


def insert_form(access: Access) -> str:
    """Returns the form of an INSERT."""
    return "INSERT OVERWRITE" if access.kind is AccessKind.INSERT_OVERWRITE else "INSERT INTO"


def insert(reader: TokenReader) -> Statement:
    """Parses INSERT ... VALUES, and INSERT ... SELECT for Spark."""
    access = parse_target(reader)
    conditional = reader.take("if", "not", "exists")
    columns = parse_columns(reader)
    if not reader.at_any("values", *QUERIES):
        raise reader.bad("VALUES or a query is expected")
    read = find_reads(reader.rest)
    if conditional:
        name = "INSERT OVERWRITE … IF NOT EXISTS"
        return Statement(name=name, accesses=(access, *read), action=not_run(name))
    values = reader.rest
    if not reader.take("values"):
        begin = reader.next
        because = f"its query at {begin.place}" if begin is not None else "its query"
        name = f"{insert_form(access)} … SELECT"
        queried = NeedsSpark(because=because, query=build_query(reader.rest), into=build_target(access, columns))
        return Statement(name=name, accesses=(access, *read), action=queried)
    rows = _rows(reader)
    action: Action
    if isinstance(rows, str):
        action = NeedsSpark(because=rows, query=build_query(values), into=build_target(access, columns))
    else:
        action = _insert(access, columns, rows)
    return Statement(name=f"{insert_form(access)} … VALUES", accesses=(access, *read), action=action)


def _insert(access: Access, columns: tuple[str, ...] | None, rows: tuple[tuple[ValuesLiteral, ...], ...]) -> Insert:
    overwrite = access.kind is AccessKind.INSERT_OVERWRITE
    return Insert(table=access.name, overwrite=overwrite, partition=access.partition, columns=columns, rows=rows)


def parse_columns(reader: TokenReader) -> tuple[str, ...] | None:
    """Reads the column list of an INSERT; None if there is none."""
    if not reader.at("(") or TokenReader(reader.rest[1:2]).at_any(*QUERIES):
        return None
    return reader.names()


def build_target(access: Access, columns: tuple[str, ...] | None) -> InsertTarget:
    """Returns the target of an INSERT."""
    overwrite = access.kind is AccessKind.INSERT_OVERWRITE
    return InsertTarget(table=access.name, overwrite=overwrite, partition=access.partition, columns=columns)


def _rows(reader: TokenReader) -> tuple[tuple[ValuesLiteral, ...], ...] | str:
    """Parses the rows of VALUES; if a value is not a literal, returns the reason why Spark is needed."""
    rows: list[tuple[ValuesLiteral, ...]] = []
    while True:
        opening = reader.next
        reader.need("(")
        row: list[ValuesLiteral] = []
        while True:
            begin = reader.next
            value = _literal(reader)
            if value is None or not reader.at_any(",", ")"):
                where = begin.place if begin is not None else "the end"
                return f"the value at {where}, which is not a literal"
            row.append(value)
            if not reader.take(","):
                break
        reader.need(")")
        if rows and len(row) != len(rows[0]) and opening is not None:
            raise BadStatement(
                f"statement: the row at {opening.place} has {len(row)} values, the first {len(rows[0])}; all rows "
                "must have as many"
            )
        rows.append(tuple(row))
        if not reader.take(","):
            break
    reader.end()
    return tuple(rows)


def _literal(reader: TokenReader) -> ValuesLiteral | None:
    sign = "-" if reader.take("-") else ""
    if not sign:
        reader.take("+")
    token = reader.skip()
    if token is None:
        return None
    if token.kind == "number":
        return ValuesLiteral(value=_number(token, sign))
    if sign:
        return None
    if token.kind == "text":
        return ValuesLiteral(value=token.value)
    if token.kind != "word":
        return None
    if token.value in ("date", "timestamp") and reader.next is not None and reader.next.kind == "text":
        return ValuesLiteral(value=reader.text(), word=token.value.upper())
    known: dict[str, bool | None] = {"true": True, "false": False, "null": None}
    return ValuesLiteral(value=known[token.value]) if token.value in known else None


def _number(token: Token, sign: str) -> Decimal:
    try:
        return Decimal(sign + token.value)
    except InvalidOperation as error:
        raise BadStatement(
            f"statement: the number {token} at {token.place} has too long an exponent; one of at most 17 digits is expected"
        ) from error


def load(reader: TokenReader) -> Statement:
    """Parses LOAD DATA; without LOCAL only for its locks."""
    reader.need("data")
    is_local = reader.take("local")
    reader.need("inpath")
    path = reader.text("a path in quotes")
    overwrite = reader.take("overwrite")
    reader.need("into", "table")
    kind = AccessKind.INSERT_OVERWRITE if overwrite else AccessKind.INSERT
    access = Access(kind=kind, name=reader.name(), partition=reader.partition())
    if not is_local:
        return Statement(name="LOAD DATA", accesses=(access,), action=not_run("LOAD DATA"))
    reader.end()
    action = Load(table=access.name, path=path, overwrite=overwrite, partition=access.partition)
    return Statement(name="LOAD DATA LOCAL", accesses=(access,), action=action)


def parse_multi_insert(tokens: Sequence[Token]) -> Statement:
    """Parses the INSERTs, each with its SELECT. Statements that are not run still get their locks."""
    reader = TokenReader(tokens)
    reader.skip_to("insert")
    source = tokens[: len(tokens) - reader.remaining]
    writes: list[Access] = []
    branches: list[tuple[Token, tuple[str, ...] | None, Sequence[Token]]] = []
    while reader.next is not None:
        begin = reader.next
        reader.need("insert")
        writes.append(parse_target(reader))
        columns, rest = parse_columns(reader), reader.rest
        reader.skip_to("insert")
        branches.append((begin, columns, rest[: len(rest) - reader.remaining]))
    accesses = (*writes, *find_reads(tokens))
    try:
        _check(source, writes, [begin for begin, _, _ in branches])
        queried, alias = _source(source)
        shared = () if queried is not None else source
        inserts = [
            BranchInsert(into=build_target(write, columns), query=build_query(shared, _select(begin, rest)))
            for write, (begin, columns, rest) in zip(writes, branches, strict=True)
        ]
        action: MultiInsert | NotRun = MultiInsert(inserts=tuple(inserts), source=queried, alias=alias)
    except BadStatement as error:
        action = NotRun(because=str(error).removeprefix("statement: "))
    return Statement(name=NAME, accesses=accesses, action=action)


def _check(source: Sequence[Token], writes: Sequence[Access], begins: Sequence[Token]) -> None:
    """Refuses what one transaction cannot do, and a source that would be read again for each INSERT.

    Raises:
        BadStatement: the statement is one of these; the message has the place.
    """
    first = source[0] if source else begins[0]
    if first.kind != "word" or first.value != "from":
        raise BadStatement(
            f"statement: FROM is expected before {first} at {first.place}; put a WITH into FROM (query) name"
        )
    known = set()
    for write, begin in zip(writes, begins, strict=True):
        if write.kind is AccessKind.INSERT_OVERWRITE:
            raise BadStatement(
                f"statement: INSERT OVERWRITE at {begin.place} stands next to other INSERTs, but what it replaces must be "
                "read under its lock before anything else; make it a statement of its own"
            )
        if write.name in known:
            raise BadStatement(
                f"statement: the INSERT at {begin.place} is the second one into {write.name}; write one with UNION ALL"
            )
        known.add(write.name)


def _source(source: Sequence[Token]) -> tuple[Query | None, str]:
    """Returns the query after FROM and its name; None for tables, whose rows are the same at each reading.

    Raises:
        BadStatement: FROM has a query next to others, a sample, or random values: each INSERT might read other rows.
    """
    reader = TokenReader(source[1:], last=source[-1])
    if _opens_query(reader.rest):
        query = reader.group()
        reader.take("as")
        name = reader.part()
        reader.end()
        return build_query(query), name
    for place, token in enumerate(source):
        is_sample = token.kind == "word" and token.value == "tablesample"
        is_random = token.value in _RANDOM and TokenReader(source[place + 1 : place + 2]).at("(")
        if is_sample or is_random or _opens_query(source[place:]):
            raise BadStatement(
                f"statement: {token} at {token.place}: each INSERT might read other rows; FROM may have tables, or a single "
                "query with a name"
            )
    return None, ""


def _opens_query(tokens: Sequence[Token]) -> bool:
    return TokenReader(tokens[:1]).at("(") and TokenReader(tokens[1:2]).at_any(*QUERIES)


def _select(begin: Token, tokens: Sequence[Token]) -> Sequence[Token]:
    """Returns the SELECT of one INSERT.

    Raises:
        BadStatement: it has none.
    """
    if not TokenReader(tokens[:1]).at("select"):
        at = tokens[0] if tokens else begin
        raise BadStatement(f"statement: SELECT is expected for the INSERT at {begin.place}, not what is at {at.place}")
    return tokens
