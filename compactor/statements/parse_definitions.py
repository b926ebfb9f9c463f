"""Parses CREATE, DROP, TRUNCATE, ANALYZE and MSCK."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from compactor.base.errors import BadStatement
from compactor.locking import statement_rules as data
from compactor.locking.accesses import Access, Name, Spec
from compactor.locking.statement_rules import AccessKind, Command
from compactor.statements.keywords import QUERIES
from compactor.statements.parse_queries import as_query, reads
from compactor.statements.parsed_actions import (
    Action,
    Columns,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    DropDatabase,
    DropTable,
    NotRun,
    TruncateTable,
)
from compactor.statements.rendering import as_type
from compactor.statements.statement import Statement
from compactor.statements.statement_list import not_run
from compactor.statements.token_cursor import TokenReader
from compactor.statements.tokens import Token

_ONCE = "once, not twice,"


def database_named(name: str | None) -> Name:
    """Returns the name of a database; None is the current one."""
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
    query = query_after_as(reader)
    read = reads(query)
    if view:
        return Statement(name="CREATE VIEW", accesses=(parent, *read), action=not_run("CREATE VIEW"))
    if query:
        makes = kind == "transactional" or _sets_transactional(reader.rest)
        made = Access(kind=AccessKind.CTAS, name=name, makes=makes)
        is_external = kind == "external"
        action = not_run("CREATE EXTERNAL TABLE") if is_external else _table_as(reader, name, if_not_exists, query)
        return Statement(name="CREATE TABLE AS", accesses=(made, parent, *read), action=action)
    if kind == "external":
        return Statement(name="CREATE EXTERNAL TABLE", accesses=(parent,), action=not_run("CREATE EXTERNAL TABLE"))
    return Statement(name="CREATE TABLE", accesses=(parent,), action=_table(reader, name, if_not_exists))


def _create_database(reader: TokenReader) -> Statement:
    if_not_exists = reader.take("if", "not", "exists")
    name = reader.part()
    location = reader.text() if reader.take("location") else None
    if not reader.ended:
        raise reader.bad("LOCATION or the end is expected")
    action = CreateDatabase(database=name, if_not_exists=if_not_exists, location=location)
    return Statement(name="CREATE DATABASE", action=action)


def _table(reader: TokenReader, name: Name, if_not_exists: bool) -> CreateTable | NotRun:
    """Parses the definition of a table; what is not created here has locks all the same."""
    try:
        found: dict[str, Any] = {}
        if reader.take("like"):
            found["like"] = reader.name()
        else:
            found["columns"] = columns(reader)
        while not reader.ended:
            clause = _clause(reader, columns)
            if found.keys() & clause.keys():
                raise reader.bad(f"each clause {_ONCE} is expected")
            found |= clause
        return CreateTable(table=name, if_not_exists=if_not_exists, **found)
    except BadStatement as error:
        return NotRun(because=str(error).removeprefix("statement: "))


def _table_as(reader: TokenReader, name: Name, if_not_exists: bool, query: Sequence[Token]) -> CreateTableAs | NotRun:
    """Parses the definition of a table whose columns are those of ``query``; see ``_table``."""
    try:
        found: dict[str, Any] = {}
        if reader.at("("):
            raise reader.bad("AS (a query gives the columns itself) is expected")
        while not reader.take("as"):
            clause = _clause(reader, TokenReader.names)
            if found.keys() & clause.keys():
                raise reader.bad(f"each clause {_ONCE} is expected")
            found |= clause
        return CreateTableAs(table=name, if_not_exists=if_not_exists, query=as_query(query), **found)
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


def columns(reader: TokenReader) -> Columns:
    """Parses ``(name type, ...)``.

    Raises:
        BadStatement: it is something else, such as a column with a COMMENT or a constraint, which are not stored here.
    """
    reader.need("(")
    found: list[tuple[str, str]] = []
    while True:
        name = reader.part()
        kind = as_type(_type(reader))
        if not kind:
            raise reader.bad("a type is expected")
        found.append((name, kind))
        if not reader.take(","):
            break
    if not reader.at(")"):
        raise reader.bad("a comma or ')' (comments and constraints of columns are not stored here) is expected")
    reader.need(")")
    return tuple(found)


def _type(reader: TokenReader) -> list[Token]:
    """Reads the tokens of a type: up to a comma or parenthesis that is not within it, or a word that is no part of it."""
    found: list[Token] = []
    depth = 0
    while (token := reader.next) is not None:
        if depth == 0 and (reader.at(",") or reader.at(")") or (found and not _continues(token, found[-1]))):
            break
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(token.value, 0) if token.kind == "sign" else 0
        found.append(token)
        reader.skip()
    return found


def _continues(token: Token, before: Token) -> bool:
    if token.kind == "sign":
        return token.value in ("(", "<")
    return token.value in ("with", "local", "time", "zone", "precision") and before.kind == "word"


def query_after_as(reader: TokenReader) -> tuple[Token, ...]:
    """Returns the query after AS; empty if there is none."""
    look = TokenReader(reader.rest)
    while look.skip_to("as"):
        look.need("as")
        if look.at_any(*QUERIES):
            return look.rest
    return ()


def _sets_transactional(found: Sequence[Token]) -> bool:
    """Tells whether TBLPROPERTIES sets ``transactional`` to true."""
    triples = zip(found, found[1:], found[2:], strict=False)
    return any((a.value.lower(), b.value, c.value.lower()) == ("transactional", "=", "true") for a, b, c in triples)
