"""Parses UPDATE, DELETE and MERGE."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compactor.base.errors import BadStatement
from compactor.locking.statement_rules import Access, AccessKind, Name
from compactor.statements.parse_queries import build_query, find_conditions, find_reads
from compactor.statements.parsed_actions import (
    Action,
    Delete,
    MergeStatement,
    NotRun,
    Query,
    Span,
    Statement,
    Update,
    WhenMatched,
    WhenNotMatched,
)
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import QUERIES, Token, render_filter

#: Words that must not stand in a condition outside parentheses: a LIMIT or a second table would be ignored.
_NO_CONDITION = frozenset(
    ("from", "using", "join", "select", "insert", "lateral", "limit", "order", "sort", "distribute", "cluster", "group")
) | frozenset(("having", "union", "intersect", "except", "minus", "where", "set", "update", "delete", "merge"))
_BRANCHES = {
    WhenMatched: {True: AccessKind.UPDATE, False: AccessKind.DELETE},
    WhenNotMatched: {True: AccessKind.MERGE_INSERT, False: AccessKind.MERGE_INSERT},
}


def update(reader: TokenReader) -> Statement:
    """Parses UPDATE."""
    name = reader.name()
    alias = _alias(reader, name, "set")
    reader.need("set")
    columns, values = _assignments(reader, alias, "where")
    where, condition, where_tokens = _condition(reader, alias)
    set_to = [token for value in values for token in value]
    change = Access(kind=AccessKind.UPDATE, name=name, where=find_conditions(where_tokens), moves=True)
    action = Update(
        table=name,
        alias=alias,
        assignments=tuple(zip(columns, (render_filter(value, (alias,)) for value in values), strict=True)),
        values=tuple(map(_span, values)),
        where=where,
        condition=condition,
        nested=_nested(where_tokens),
    )
    return _build_statement("UPDATE", (change,), [*set_to, *where_tokens], _unless_nested(set_to, action))


def delete(reader: TokenReader) -> Statement:
    """Parses DELETE."""
    reader.need("from")
    name = reader.name()
    alias = _alias(reader, name, "where")
    where, condition, where_tokens = _condition(reader, alias)
    change = Access(kind=AccessKind.DELETE, name=name, where=find_conditions(where_tokens))
    action = Delete(table=name, alias=alias, where=where, condition=condition, nested=_nested(where_tokens))
    return _build_statement("DELETE", (change,), where_tokens, action)


def merge(reader: TokenReader) -> Statement:
    """Parses MERGE."""
    reader.need("into")
    name = reader.name()
    alias = _alias(reader, name, "using")
    reader.need("using")
    source, read = _source(reader)
    source_alias = _alias(reader, source if isinstance(source, Name) else None, "on")
    if source_alias == alias:
        raise BadStatement(f"statement: MERGE calls both tables {alias}; give one of them another name behind AS")
    reader.need("on")
    begin = reader.rest
    on = _expression(reader, "when")
    clauses: list[WhenMatched | WhenNotMatched] = []
    while reader.take("when"):
        clauses.append(_clause(reader, alias))
    if not clauses or not reader.ended:
        raise reader.bad("WHEN … THEN UPDATE, DELETE or INSERT is expected")
    kinds = dict.fromkeys(_BRANCHES[type(clause)][bool(clause.columns)] for clause in clauses)
    action = MergeStatement(
        table=name, alias=alias, source=source, source_alias=source_alias, on=_span(on), clauses=tuple(clauses)
    )
    changes = (Access(kind=kind, name=name) for kind in kinds)
    accesses = (*changes, *(clause for clause in read if clause.name != name))
    return _build_statement("MERGE", accesses, begin, _unless_nested(begin, action))


def _build_statement(form: str, accesses: Sequence[Access], expressions: Sequence[Token], action: Action) -> Statement:
    """Returns the statement.

    Its accesses include the tables that its expressions read, except the changed table.
    """
    others = find_reads(expressions, without=accesses[0].name)
    return Statement(name=form, accesses=(*accesses, *others), action=action)


def _source(reader: TokenReader) -> tuple[Name | Query, tuple[Access, ...]]:
    """Reads the table or the query of USING."""
    if not reader.at("("):
        name = reader.name()
        return name, (Access(kind=AccessKind.READ, name=name),)
    begin = reader.next
    query = reader.group()
    if not TokenReader(query).at_any("values", *QUERIES):
        where = "" if begin is None else f" behind the parenthesis at {begin.place}"
        raise BadStatement(f"statement: a query is expected{where}")
    return build_query(query), tuple(Access(kind=access.kind, name=access.name) for access in find_reads(query))


def _clause(reader: TokenReader, alias: str) -> WhenMatched | WhenNotMatched:
    """Reads what follows WHEN."""
    is_matched = not reader.take("not")
    reader.need("matched")
    condition = _span(_expression(reader, "then")) if reader.take("and") else None
    reader.need("then")
    if not is_matched:
        reader.need("insert")
        columns = reader.names() if reader.at("(") else None
        reader.need("values")
        values = tuple(_values(reader))
        if columns is not None and len(columns) != len(values):
            raise reader.bad(f"{len(columns)} columns have {len(values)} values; as many are expected")
        return WhenNotMatched(condition=condition, columns=columns, values=values)
    if reader.take("delete"):
        return WhenMatched(condition=condition)
    if not reader.take("update", "set"):
        raise reader.bad("UPDATE SET or DELETE is expected")
    names, expressions = _assignments(reader, alias, "when")
    return WhenMatched(condition=condition, columns=names, values=tuple(map(_span, expressions)))


def _values(reader: TokenReader) -> list[Span]:
    """Reads the expressions of one row of VALUES, in parentheses."""
    row = TokenReader(reader.group(), last=reader.before)
    spans = [_span(_expression(row, ","))]
    while row.take(","):
        spans.append(_span(_expression(row, ",")))
    return spans


def _assignments(reader: TokenReader, alias: str, end: str) -> tuple[tuple[str, ...], tuple[list[Token], ...]]:
    """Reads ``c = value, …`` up to the word ``end``."""
    columns: list[str] = []
    values: list[list[Token]] = []
    while True:
        columns.append(_column(reader, alias))
        reader.need("=")
        values.append(_expression(reader, ",", end))
        if not reader.take(","):
            break
    if len(set(columns)) < len(columns):
        raise reader.bad(f"{', '.join(columns)} are set, each column once is expected")
    return tuple(columns), tuple(values)


def _alias(reader: TokenReader, name: Name | None, following: str) -> str:
    """Reads the alias of a table or of a query (no ``name``); returns what expressions call it."""
    if reader.take("as"):
        return reader.part()
    token = reader.next
    if token is not None and token.kind in ("word", "quoted") and not reader.at(following):
        if token.value in _NO_CONDITION and token.kind == "word":
            raise reader.bad(f"{following.upper()} or the end is expected")
        return reader.part()
    if name is None:
        raise reader.bad("a name for the query is expected")
    return name.table


def _column(reader: TokenReader, alias: str) -> str:
    first = reader.part()
    return reader.part() if first == alias and reader.take(".") else first


def _condition(reader: TokenReader, alias: str) -> tuple[str | None, Span | None, list[Token]]:
    """Reads WHERE and its condition.

    Returns the condition as a filter, as a span for Spark, and as tokens.
    """
    if reader.ended:
        return None, None, []
    reader.need("where")
    tokens = _expression(reader, what="a condition")
    return render_filter(tokens, (alias,)), _span(tokens), tokens


def _expression(reader: TokenReader, *ends: str, what: str = "a value") -> list[Token]:
    """Reads tokens up to the first of ``ends`` outside parentheses and CASE … END.

    Raises:
        BadStatement: there are no tokens, or a word among them begins another part of a statement.
    """
    tokens = reader.until(_end(reader, ends))
    if not tokens:
        raise reader.bad(f"{what} is expected")
    return tokens


def _end(reader: TokenReader, ends: tuple[str, ...]) -> Callable[[Token], bool]:
    cases = 0

    def ends_here(token: Token) -> bool:
        nonlocal cases
        if token.kind == "word" and not (reader.before is not None and reader.before.value == "."):
            cases += {"case": 1, "end": -1}.get(token.value, 0)
        if cases <= 0 and reader.at_any(*ends):
            return True
        if token.kind == "word" and token.value in _NO_CONDITION and not _is_called(reader):
            raise reader.bad("a value, WHERE or the end is expected")
        return False

    return ends_here


def _is_called(reader: TokenReader) -> bool:
    """Tells whether the next word is a function, or the end of IS [NOT] DISTINCT FROM."""
    following = reader.rest[1:2]
    if following and following[0].value == "(" and following[0].kind == "sign":
        return True
    return reader.at("from") and reader.before is not None and reader.before.value == "distinct"


def _span(tokens: Sequence[Token]) -> Span:
    return tokens[0].start, tokens[-1].end


def _nested(tokens: Sequence[Token]) -> Query | None:
    """Returns a condition that contains queries, with the tables they name; None for any other condition."""
    return None if _query_in(tokens) is None else build_query(tokens)


def _unless_nested(tokens: Sequence[Token], action: Action) -> Action:
    """Returns ``action``, or ``NotRun`` if these expressions contain a query.

    Spark would look up the query's tables in its own catalog.
    """
    token = _query_in(tokens)
    if token is None:
        return action
    return NotRun(
        because=f"the query at {token.place} is part of a value, or of a condition of MERGE: give it to MERGE … USING "
        "(query), in a session of Spark"
    )


def _query_in(tokens: Sequence[Token]) -> Token | None:
    """Returns the first word of the first query in parentheses."""
    for before, token in zip((None, *tokens), tokens, strict=False):
        opens = before is not None and before.value == "(" and before.kind == "sign"
        if token.kind == "word" and opens and token.value in ("select", "with", "from", "table", "values"):
            return token
    return None
