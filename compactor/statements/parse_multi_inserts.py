"""Parses several INSERTs of one query: FROM source INSERT INTO a SELECT … INSERT INTO b SELECT …"""

from __future__ import annotations

from collections.abc import Sequence

from compactor.base.errors import BadStatement
from compactor.locking.statement_rules import Access, AccessKind
from compactor.statements.keywords import QUERIES
from compactor.statements.parse_queries import build_query, find_reads
from compactor.statements.parse_writes import build_target, parse_columns, parse_target
from compactor.statements.parsed_actions import BranchInsert, MultiInsert, NotRun, Query
from compactor.statements.statement import Statement
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token

NAME = "MULTI INSERT"
#: Functions of Spark that return another value at each call.
_RANDOM = frozenset(
    (
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
    )
)


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
