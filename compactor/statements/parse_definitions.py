"""Parses CREATE, DROP, TRUNCATE, ANALYZE and MSCK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from compactor.base.errors import BadStatement
from compactor.locking import statement_rules as data
from compactor.locking.statement_rules import Access, AccessKind, Command, Name, Spec
from compactor.statements.parse_queries import build_query, find_reads
from compactor.statements.parsed_actions import (
    Action,
    Columns,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    DropDatabase,
    DropTable,
    NotRun,
    Statement,
    TruncateTable,
)
from compactor.statements.statement_list import not_run
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import QUERIES, Token, render_type

_ONCE = "once, not twice,"


def database_named(name: str | None) -> Name:
    """Returns the name of a database; None means the current one."""
    return Name(database=name, table="")


def command_access(command: Command, name: Name, partition: Spec | None = None) -> Access:
    """Returns the access that ``command`` makes to its table."""
    return Access(kind=command.kind, name=name, partition=partition, command=command)


def truncate(reader: TokenReader) -> Statement:
    """Parses TRUNCATE TABLE."""
    reader.take("table")
    name, partition = reader.name(), reader.values()
    reader.end()
    access = command_access(data.TRUNCATE, name, partition)
    return Statement(name="TRUNCATE TABLE", accesses=(access,), action=TruncateTable(table=name, partition=partition))


def analyze(reader: TokenReader) -> Statement:
    """Parses ANALYZE TABLE for its locks."""
    reader.need("table")
    access = command_access(data.ANALYZE, reader.name(), reader.partition())
    return Statement(name="ANALYZE TABLE", accesses=(access,), action=not_run("ANALYZE TABLE"))


def msck(reader: TokenReader) -> Statement:
    """Parses MSCK REPAIR TABLE for its locks."""
    reader.take("repair")
    reader.need("table")
    access = command_access(data.MSCK, reader.name())
    return Statement(name="MSCK", accesses=(access,), action=not_run("MSCK"))


def drop(reader: TokenReader) -> Statement:
    """Parses DROP DATABASE and DROP TABLE; the rest of DROP for its locks."""
    if reader.take("database") or reader.take("schema"):
        return _drop_database(reader)
    if reader.at("view") or reader.at("connector"):
        form = f"DROP {reader.skip()}".upper()
        return Statement(name=form, action=not_run(form))
    command = data.DROP_MATERIALIZED_VIEW if reader.take("materialized", "view") else data.DROP_TABLE
    if command is data.DROP_TABLE:
        reader.need("table")
    if_exists = reader.take("if", "exists")
    name = reader.name()
    purge = reader.take("purge")
    reader.end()
    parent = Access(kind=AccessKind.DDL_SHARED, name=database_named(name.database))
    is_table = command is data.DROP_TABLE
    action: Action = DropTable(table=name, if_exists=if_exists, purge=purge) if is_table else not_run(command.name)
    return Statement(name=command.name, accesses=(command_access(command, name), parent), action=action)


def _drop_database(reader: TokenReader) -> Statement:
    if_exists = reader.take("if", "exists")
    name = reader.part()
    cascades = reader.take("cascade")
    if not cascades:
        reader.take("restrict")
    reader.end()
    access = replace(command_access(data.DROP_DATABASE, database_named(name)), cascades=cascades)
    action: Action = DropDatabase(database=name, if_exists=if_exists)
    if cascades:
        return Statement(name="DROP DATABASE CASCADE", accesses=(access,), action=not_run("DROP DATABASE CASCADE"))
    return Statement(name="DROP DATABASE", accesses=(access,), action=action)


def create(reader: TokenReader) -> Statement:
    """Parses CREATE DATABASE and CREATE TABLE; the rest of CREATE for its locks."""
    if reader.take("database") or reader.take("schema"):
        return _create_database(reader)
    for words in (("connector",), ("temporary", "table")):
        if reader.at(*words):
            form = f"CREATE {' '.join(words)}".upper()
            return Statement(name=form, action=not_run(form))
    replaces = reader.take("or", "replace")
    view = reader.take("materialized", "view") or reader.take("view")
    kind = ""
    for word in ("managed", "external", "transactional"):
        if not view and not kind and reader.take(word):
            kind = word
    if replaces and not view:
        raise reader.bad("VIEW is expected (a table is not replaced; INSERT OVERWRITE replaces its rows)")
    if not view:
        reader.need("table")
    if_not_exists = reader.take("if", "not", "exists")
    name = reader.name()
    parent = Access(kind=AccessKind.DDL_SHARED, name=database_named(name.database))
    query = find_query_after_as(reader)
    read = find_reads(query)
    if view:
        return Statement(name="CREATE VIEW", accesses=(parent, *read), action=not_run("CREATE VIEW"))
    if query:
        makes = kind == "transactional" or _sets_transactional(reader.rest)
        created = Access(kind=AccessKind.CTAS, name=name, makes=makes)
        is_external = kind == "external"
        action = (
            not_run("CREATE EXTERNAL TABLE") if is_external else _parse_table_as(reader, name, if_not_exists, query)
        )
        return Statement(name="CREATE TABLE AS", accesses=(created, parent, *read), action=action)
    if kind == "external":
        return Statement(name="CREATE EXTERNAL TABLE", accesses=(parent,), action=not_run("CREATE EXTERNAL TABLE"))
    return Statement(name="CREATE TABLE", accesses=(parent,), action=_parse_table(reader, name, if_not_exists))


def _create_database(reader: TokenReader) -> Statement:
    if_not_exists = reader.take("if", "not", "exists")
    name = reader.part()
    location = reader.text() if reader.take("location") else None
    if not reader.ended:
        raise reader.bad("LOCATION or the end is expected")
    action = CreateDatabase(database=name, if_not_exists=if_not_exists, location=location)
    return Statement(name="CREATE DATABASE", action=action)


def _parse_table(reader: TokenReader, name: Name, if_not_exists: bool) -> CreateTable | NotRun:
    """Parses the definition of a table. If it cannot be created here, the statement still gets its locks."""
    try:
        clauses: dict[str, Any] = {}
        if reader.take("like"):
            clauses["like"] = reader.name()
        else:
            clauses["columns"] = parse_column_definitions(reader)
        while not reader.ended:
            clause = _clause(reader, parse_column_definitions)
            if clauses.keys() & clause.keys():
                raise reader.bad(f"each clause {_ONCE} is expected")
            clauses |= clause
        return CreateTable(table=name, if_not_exists=if_not_exists, **clauses)
    except BadStatement as error:
        return NotRun(because=str(error).removeprefix("statement: "))


def _parse_table_as(
    reader: TokenReader, name: Name, if_not_exists: bool, query: Sequence[Token]
) -> CreateTableAs | NotRun:
    """Parses the definition of a table that takes its columns from ``query``; see ``_parse_table``."""
    try:
        clauses: dict[str, Any] = {}
        if reader.at("("):
            raise reader.bad("AS (a query gives the columns itself) is expected")
        while not reader.take("as"):
            clause = _clause(reader, TokenReader.names)
            if clauses.keys() & clause.keys():
                raise reader.bad(f"each clause {_ONCE} is expected")
            clauses |= clause
        return CreateTableAs(table=name, if_not_exists=if_not_exists, query=build_query(query), **clauses)
    except BadStatement as error:
        return NotRun(because=str(error).removeprefix("statement: "))


def _clause(reader: TokenReader, keys: Callable[[TokenReader], object]) -> dict[str, Any]:
    if reader.take("partitioned", "by"):
        return {"partitioned_by": keys(reader)}
    if reader.take("clustered", "by"):
        names = reader.names()
        reader.need("into")
        buckets = reader.integer("the number of buckets")
        reader.need("buckets")
        return {"clustered_by": names, "buckets": buckets}
    if reader.take("stored", "as"):
        reader.need("orc")
        return {}
    if reader.take("location"):
        return {"location": reader.text()}
    if reader.take("tblproperties"):
        return {"properties": reader.properties()}
    raise reader.bad(
        "PARTITIONED BY, CLUSTERED BY … INTO n BUCKETS, STORED AS ORC, LOCATION or TBLPROPERTIES is expected"
    )


def parse_column_definitions(reader: TokenReader) -> Columns:
    """Parses ``(name type, ...)``.

    Raises:
        BadStatement: it is something else, such as a column with a COMMENT or a constraint, which we do not store.
    """
    reader.need("(")
    definitions: list[tuple[str, str]] = []
    while True:
        name = reader.part()
        kind = render_type(_type(reader))
        if not kind:
            raise reader.bad("a type is expected")
        definitions.append((name, kind))
        if not reader.take(","):
            break
    if not reader.at(")"):
        raise reader.bad("a comma or ')' (comments and constraints of columns are not stored here) is expected")
    reader.need(")")
    return tuple(definitions)


def _type(reader: TokenReader) -> list[Token]:
    """Reads the tokens of a type.

    It ends at a comma or parenthesis outside it, or at a word that does not belong to it.
    """
    tokens: list[Token] = []
    depth = 0
    while (token := reader.next) is not None:
        if depth == 0 and (reader.at(",") or reader.at(")") or (tokens and not _continues(token, tokens[-1]))):
            break
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(token.value, 0) if token.kind == "sign" else 0
        tokens.append(token)
        reader.skip()
    return tokens


def _continues(token: Token, before: Token) -> bool:
    if token.kind == "sign":
        return token.value in ("(", "<")
    return token.value in ("with", "local", "time", "zone", "precision") and before.kind == "word"


def find_query_after_as(reader: TokenReader) -> tuple[Token, ...]:
    """Returns the query after AS; empty if there is none."""
    look = TokenReader(reader.rest)
    while look.skip_to("as"):
        look.need("as")
        if look.at_any(*QUERIES):
            return look.rest
    return ()


def _sets_transactional(tokens: Sequence[Token]) -> bool:
    """Tells whether TBLPROPERTIES sets ``transactional`` to true."""
    triples = zip(tokens, tokens[1:], tokens[2:], strict=False)
    return any((a.value.lower(), b.value, c.value.lower()) == ("transactional", "=", "true") for a, b, c in triples)
