"""Parses several INSERTs of one query: FROM source INSERT INTO a SELECT … INSERT INTO b SELECT …"""

from __future__ import annotations

from collections.abc import Sequence

from compactor.base.errors import BadStatement
from compactor.locking.accesses import Access
from compactor.locking.statement_rules import AccessKind
from compactor.statements.keywords import QUERIES
from compactor.statements.parse_queries import as_query, reads
from compactor.statements.parse_writes import columns_of, into, target
from compactor.statements.parsed_actions import BranchInsert, MultiInsert, NotRun, Query
from compactor.statements.statement import Statement
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token

NAME = "MULTI INSERT"
#: Functions of Spark that give another value each time.
_RANDOM = frozenset(
    (
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
    )
)


def multi_insert(found: Sequence[Token]) -> Statement:
    """Parses the INSERTs, each with its SELECT. What is not run of them has its locks all the same."""
    reader = TokenReader(found)
    reader.skip_to("insert")
    source = found[: len(found) - reader.left]
    writes: list[Access] = []
    branches: list[tuple[Token, tuple[str, ...] | None, Sequence[Token]]] = []
    while reader.next is not None:
        begin = reader.next
        reader.need("insert")
        writes.append(target(reader))
        columns, rest = columns_of(reader), reader.rest
        reader.skip_to("insert")
        branches.append((begin, columns, rest[: len(rest) - reader.left]))
    accesses = (*writes, *reads(found))
    try:
        _check(source, writes, [begin for begin, _, _ in branches])
        queried, alias = _source(source)
        shared = () if queried is not None else source
        inserts = [
            BranchInsert(into=into(write, columns), query=as_query(shared, _select(begin, rest)))
            for write, (begin, columns, rest) in zip(writes, branches, strict=True)
        ]
        action: MultiInsert | NotRun = MultiInsert(inserts=tuple(inserts), source=queried, alias=alias)
    except BadStatement as error:
        action = NotRun(because=str(error).removeprefix("statement: "))
    return Statement(name=NAME, accesses=accesses, action=action)


def _check(source: Sequence[Token], writes: Sequence[Access], begins: Sequence[Token]) -> None:
    """Refuses what one transaction cannot do, or could do only with a source that is read again for each INSERT.

    Raises:
        BadStatement: it is such a thing; the message has the place.
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
                f"statement: INSERT OVERWRITE at {begin.place} beside other INSERTs: what it replaces has to be looked at "
                "under its lock before anything else; write it by itself"
            )
        if write.name in known:
            raise BadStatement(
                f"statement: the INSERT at {begin.place} is the second one into {write.name}; write one with UNION ALL"
            )
        known.add(write.name)


def _source(found: Sequence[Token]) -> tuple[Query | None, str]:
    """Returns the query behind FROM, and its name; None for tables, which are the same whenever they are read.

    Raises:
        BadStatement: it is a query beside others, a sample, or random: each INSERT might read other rows.
    """
    reader = TokenReader(found[1:], last=found[-1])
    if _opens_query(reader.rest):
        query = reader.group()
        reader.take("as")
        name = reader.part()
        reader.end()
        return as_query(query), name
    for place, token in enumerate(found):
        is_sample = token.kind == "word" and token.value == "tablesample"
        is_random = token.value in _RANDOM and TokenReader(found[place + 1 : place + 2]).at("(")
        if is_sample or is_random or _opens_query(found[place:]):
            raise BadStatement(
                f"statement: {token} at {token.place}: each INSERT might read other rows; FROM has tables, or one query "
                "with a name and nothing else"
            )
    return None, ""


def _opens_query(found: Sequence[Token]) -> bool:
    return TokenReader(found[:1]).at("(") and TokenReader(found[1:2]).at_any(*QUERIES)


def _select(begin: Token, found: Sequence[Token]) -> Sequence[Token]:
    """Returns the SELECT of one INSERT.

    Raises:
        BadStatement: it has none.
    """
    if not TokenReader(found[:1]).at("select"):
        at = found[0] if found else begin
        raise BadStatement(f"statement: SELECT is expected for the INSERT at {begin.place}, not what is at {at.place}")
    return found
