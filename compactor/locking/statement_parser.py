"""Parses a statement into its accesses to objects (``compactor explain-locks``). Unknown statements are refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from compactor.errors import Refused
from compactor.locking import statement_rules as data
from compactor.locking.statement_rules import AccessKind, Command, OldLock
from compactor.locking.statement_tokens import Name, QueriedTable, Token, TokenReader, conditions, sources, tokens

Spec = tuple[tuple[str, str | None], ...]  #: PARTITION (...): keys with their plain values, None if not given


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One access of a statement to an object.

    Attributes:
        name: its ``table`` is empty for a database.
        partition: the PARTITION clause.
        where: the values that the condition of a row change or a query demands of columns.
        makes: for a table that does not exist yet, whether it will be transactional; else None.
        moves: true if rows may move to other partitions.
        cascades: true if the contents of a database are dropped too.
    """

    kind: AccessKind
    name: Name
    partition: Spec | None = None
    where: tuple[tuple[str, str], ...] = ()
    command: Command | None = None
    makes: bool | None = None
    moves: bool = False
    cascades: bool = False

    @property
    def is_database(self) -> bool:
        return not self.name.table


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A parsed statement; ``name`` is its form, such as INSERT OVERWRITE or ALTER TABLE ADD COLUMNS."""

    name: str
    accesses: tuple[Access, ...] = ()


def parse(text: str) -> Statement:
    """Parses ``text``, one statement of HiveQL.

    Raises:
        Refused: its form is unknown, or it breaks off; the message names it.
    """
    found = tokens(text)
    reader = TokenReader(found)
    if not found:
        raise Refused("statement: it is empty")
    for words, form in _FORMS:
        if reader.take(*words):
            return form(reader)
    if reader.at("select") or reader.at("from") or reader.at("with") or reader.at("("):
        return _query(found)
    raise Refused(
        f"statement {' '.join(map(str, found[:3])).upper()!r} is unknown to explain-locks; known are SELECT, INSERT, "
        "UPDATE, DELETE, MERGE, LOAD DATA, TRUNCATE TABLE, CREATE, DROP, ALTER TABLE, ANALYZE TABLE, MSCK and EXPLAIN"
    )


def _database(name: str | None) -> Name:
    return Name(database=name, table="")


def _reads(read: Sequence[QueriedTable]) -> tuple[Access, ...]:
    return tuple(Access(kind=AccessKind.READ, name=s.name, where=s.where) for s in read)


def _query(found: Sequence[Token]) -> Statement:
    """Parses SELECT, and one or several INSERTs after FROM or WITH."""
    reader = TokenReader(found)
    writes: list[Access] = []
    names: list[str] = []
    while reader.skip_to("insert"):
        reader.need("insert")
        written = _target(reader)
        writes.append(written)
        names.append(_insert_name(written))
    if not writes and reader.at("update"):
        raise Refused("statement: a query contains UPDATE")
    name = names[0] if names and len(set(names)) == 1 else "MULTI INSERT" if names else "SELECT"
    return Statement(name=name, accesses=(*writes, *_reads(sources(found))))


def _insert_name(access: Access) -> str:
    return "INSERT OVERWRITE" if access.kind is AccessKind.INSERT_OVERWRITE else "INSERT"


def _target(reader: TokenReader) -> Access:
    overwrite = reader.take("overwrite")
    if not overwrite:
        reader.need("into")
    if overwrite and (reader.at("directory") or reader.at("local", "directory")):
        raise Refused("statement: INSERT OVERWRITE DIRECTORY writes no table; explain the locks of its query")
    reader.take("table")
    kind = AccessKind.INSERT_OVERWRITE if overwrite else AccessKind.INSERT
    return Access(kind=kind, name=reader.name(), partition=reader.partition())


def _insert(reader: TokenReader) -> Statement:
    written = _target(reader)
    reader.take("if", "not", "exists")
    return Statement(name=_insert_name(written), accesses=(written, *_reads(sources(reader.rest))))


def _update(reader: TokenReader) -> Statement:
    name = reader.name()
    return _row_change("UPDATE", AccessKind.UPDATE, name, reader)


def _delete(reader: TokenReader) -> Statement:
    reader.need("from")
    name = reader.name()
    return _row_change("DELETE", AccessKind.DELETE, name, reader)


def _row_change(form: str, kind: AccessKind, name: Name, reader: TokenReader) -> Statement:
    """Parses UPDATE or DELETE; tables in subqueries are read under locks of their own, the changed table is not."""
    read = [s for s in sources(reader.rest) if s.name != name]
    reader.skip_to("where")
    where = conditions(reader.rest[1:])
    change = Access(kind=kind, name=name, where=where, moves=kind is AccessKind.UPDATE)
    return Statement(name=form, accesses=(change, *_reads(read)))


def _merge(reader: TokenReader) -> Statement:
    reader.need("into")
    name = reader.name()
    if not reader.skip_to("using"):
        raise Refused("statement: MERGE INTO has no USING")
    reader.need("using")
    read = [s for s in sources((Token(kind="word", value="from"), *reader.rest)) if s.name != name]
    branches: dict[AccessKind, None] = {}
    words = [token.value for token in reader.rest if token.kind == "word"]
    for before, word in pairwise(words):
        if before == "then" and word in _BRANCHES:
            branches[_BRANCHES[word]] = None
    if not branches:
        raise Refused("statement: MERGE INTO has no WHEN ... THEN UPDATE, DELETE or INSERT")
    writes = tuple(Access(kind=kind, name=name) for kind in branches)
    return Statement(name="MERGE", accesses=(*writes, *_reads([replace(s, where=()) for s in read])))


_BRANCHES = {"update": AccessKind.UPDATE, "delete": AccessKind.DELETE, "insert": AccessKind.MERGE_INSERT}


def _load(reader: TokenReader) -> Statement:
    reader.need("data")
    if not reader.skip_to("overwrite", "into"):
        raise Refused("statement: LOAD DATA has no INTO TABLE")
    overwrite = reader.take("overwrite")
    reader.need("into", "table")
    kind = AccessKind.INSERT_OVERWRITE if overwrite else AccessKind.INSERT
    access = Access(kind=kind, name=reader.name(), partition=reader.partition())
    return Statement(name="LOAD DATA OVERWRITE" if overwrite else "LOAD DATA", accesses=(access,))


def _command_access(command: Command, name: Name, partition: Spec | None = None) -> Access:
    return Access(kind=command.kind, name=name, partition=partition, command=command)


def _truncate(reader: TokenReader) -> Statement:
    reader.take("table")
    access = _command_access(data.TRUNCATE, reader.name(), reader.partition())
    return Statement(name="TRUNCATE TABLE", accesses=(access,))


def _analyze(reader: TokenReader) -> Statement:
    reader.need("table")
    access = _command_access(data.ANALYZE, reader.name(), reader.partition())
    return Statement(name="ANALYZE TABLE", accesses=(access,))


def _msck(reader: TokenReader) -> Statement:
    reader.take("repair")
    reader.need("table")
    return Statement(name="MSCK", accesses=(_command_access(data.MSCK, reader.name()),))


def _nothing(name: str) -> Callable[[TokenReader], Statement]:
    return lambda reader: Statement(name=name)


def _drop(reader: TokenReader) -> Statement:
    if reader.take("database") or reader.take("schema"):
        reader.take("if", "exists")
        dropped = _database(reader.name().table)
        access = replace(_command_access(data.DROP_DATABASE, dropped), cascades=reader.take("cascade"))
        return Statement(name="DROP DATABASE", accesses=(access,))
    if reader.at("view") or reader.at("connector"):
        return Statement(name=f"DROP {reader.skip()}".upper())
    command = data.DROP_MATERIALIZED_VIEW if reader.take("materialized", "view") else data.DROP_TABLE
    if command is data.DROP_TABLE:
        reader.need("table")
    reader.take("if", "exists")
    name = reader.name()
    parent = Access(kind=AccessKind.DDL_SHARED, name=_database(name.database))
    return Statement(name=command.name, accesses=(_command_access(command, name), parent))


def _create(reader: TokenReader) -> Statement:
    for words in (("database",), ("schema",), ("connector",), ("temporary", "table")):
        if reader.at(*words):
            return Statement(name=f"CREATE {' '.join(words)}".upper())
    reader.take("or", "replace")
    view = reader.take("materialized", "view") or reader.take("view")
    for word in ("managed", "external", "transactional"):
        if not view and reader.take(word):
            transactional = word == "transactional"
            break
    else:
        transactional = False
    if not view:
        reader.need("table")
    reader.take("if", "not", "exists")
    name = reader.name()
    parent = Access(kind=AccessKind.DDL_SHARED, name=_database(name.database))
    read = _reads(sources(_query_after_as(reader)))
    if view or not _is_query(reader):
        return Statement(name="CREATE VIEW" if view else "CREATE TABLE", accesses=(parent, *read))
    makes = transactional or _sets_transactional(reader.rest)
    made = Access(kind=AccessKind.CTAS, name=name, makes=makes)
    return Statement(name="CREATE TABLE AS", accesses=(made, parent, *read))


def _is_query(reader: TokenReader) -> bool:
    return bool(_query_after_as(reader))


def _query_after_as(reader: TokenReader) -> tuple[Token, ...]:
    """Returns the query after AS; empty if there is none."""
    look = TokenReader(reader.rest)
    while look.skip_to("as"):
        look.need("as")
        if look.at("select") or look.at("with") or look.at("from") or look.at("("):
            return look.rest
    return ()


def _sets_transactional(found: Sequence[Token]) -> bool:
    """Tells whether TBLPROPERTIES sets ``transactional`` to true."""
    triples = zip(found, found[1:], found[2:], strict=False)
    return any((a.value.lower(), b.value, c.value.lower()) == ("transactional", "=", "true") for a, b, c in triples)


def _alter(reader: TokenReader) -> Statement:
    if reader.take("materialized", "view"):
        return _alter_materialized_view(reader)
    for words in (("view",), ("database",), ("schema",), ("connector",)):
        if reader.at(*words):
            return Statement(name=f"ALTER {words[0]}".upper())
    reader.need("table")
    name = reader.name()
    partition = None if reader.at("partition", "column") else reader.partition()
    fitting = [command for command in data.ALTER if reader.at(*command.words)]
    if not fitting:
        raise Refused(
            f"statement ALTER TABLE {name} {' '.join(map(str, reader.rest[:3])).upper()} is unknown to explain-locks"
        )
    command = max(fitting, key=lambda c: len(c.words))
    reader.take(*command.words)
    return Statement(name=f"ALTER TABLE {command.name}", accesses=tuple(_altered(reader, command, name, partition)))


def _altered(reader: TokenReader, command: Command, name: Name, partition: Spec | None) -> list[Access]:
    if command.words[-1] == "partition" and reader.at("("):
        named = TokenReader((Token(kind="word", value="partition"), *reader.rest)).partition()
        partition = named if partition is None else partition
    if command.words == ("set", "tblproperties") and any(t.value.lower() == "transactional" for t in reader.rest):
        command = data.CONVERSION
    adds = command.words[0] == "add" and command.words[-1] == "partition"
    if adds:
        # Hive locks the table, since the partition does not exist yet; the old manager locks its future name.
        return [replace(_command_access(command, name, partition), makes=False)]
    if command.words == ("rename", "to"):
        renamed = reader.name()
        parent = Access(kind=AccessKind.DDL_SHARED, name=_database(renamed.database or name.database))
        return [_command_access(command, name), parent]
    if command.words[0] == "exchange":
        reader.skip_to("with")
        reader.need("with", "table")
        return [
            replace(_command_access(command, name, partition), makes=False),
            Access(kind=AccessKind.READ, name=reader.name()),
        ]
    if partition is not None and command.old_lock is OldLock.TABLE:
        command = replace(command, old_lock=OldLock.PARTITION)
    return [_command_access(command, name, partition)]


def _alter_materialized_view(reader: TokenReader) -> Statement:
    name = reader.name()
    if reader.at("enable", "rewrite") or reader.at("disable", "rewrite"):
        return Statement(name="ALTER MATERIALIZED VIEW REWRITE", accesses=(_command_access(data.REWRITE, name),))
    raise Refused(
        f"statement ALTER MATERIALIZED VIEW {name} {' '.join(map(str, reader.rest[:1])).upper()} is unknown to "
        "explain-locks: it locks what the view's own query reads; explain that query"
    )


def _show(reader: TokenReader) -> Statement:
    """Parses SHOW: SHOW TABLES reads its database, the other forms lock nothing."""
    if not reader.take("tables"):
        return Statement(name="SHOW")
    named = reader.take("in") or reader.take("from")
    database = _database(reader.name().table if named else None)
    return Statement(name="SHOW TABLES", accesses=(Access(kind=AccessKind.READ, name=database),))


def _explain(reader: TokenReader) -> Statement:
    """Parses EXPLAIN, which runs and locks nothing; for EXPLAIN LOCKS, the explained statement."""
    if reader.take("locks"):
        return parse(" ".join(_quoted(token) for token in reader.rest))
    return Statement(name="EXPLAIN")


def _quoted(token: Token) -> str:
    if token.kind == "text":
        escaped = token.value.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    return f"`{token.value.replace('`', '``')}`" if token.kind == "quoted" else token.value


_FORMS: tuple[tuple[tuple[str, ...], Callable[[TokenReader], Statement]], ...] = (
    (("explain",), _explain),
    (("insert",), _insert),
    (("update",), _update),
    (("delete",), _delete),
    (("merge",), _merge),
    (("load",), _load),
    (("truncate",), _truncate),
    (("analyze",), _analyze),
    (("msck",), _msck),
    (("create",), _create),
    (("drop",), _drop),
    (("alter",), _alter),
    (("show",), _show),
    (("describe",), _nothing("DESCRIBE")),
    (("desc",), _nothing("DESCRIBE")),
    (("use",), _nothing("USE")),
)
