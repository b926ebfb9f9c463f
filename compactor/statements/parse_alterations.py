"""Parses ALTER: the forms of ALTER TABLE that are run, and all others for their locks."""

from __future__ import annotations

from dataclasses import replace

from compactor.locking import statement_rules as data
from compactor.locking.statement_rules import Access, AccessKind, Command, Name, OldLock, Spec
from compactor.statements.parse_definitions import command_access, database_named, parse_column_definitions
from compactor.statements.parse_utilities import compact
from compactor.statements.parsed_actions import (
    Action,
    AddColumns,
    AddPartitions,
    DropPartitions,
    NotRun,
    RenameTable,
    SetProperties,
    Statement,
)
from compactor.statements.statement_list import not_run
from compactor.statements.token_cursor import TokenReader


def alter(reader: TokenReader) -> Statement:
    """Parses ALTER TABLE, and ALTER of views, databases and connectors for its locks."""
    if reader.take("materialized", "view"):
        return _materialized_view(reader)
    for word in ("view", "database", "schema", "connector"):
        if reader.at(word):
            return Statement(name="ALTER OTHER", action=not_run("ALTER OTHER"))
    reader.need("table")
    name = reader.name()
    partition = None if reader.at("partition", "column") else reader.partition()
    fitting = [command for command in data.ALTER if reader.at(*command.words)]
    if not fitting:
        raise reader.bad(f"what ALTER TABLE {name} may do (see docs/sql.md) is expected")
    command = max(fitting, key=lambda command: len(command.words))
    reader.take(*command.words)
    accesses = _accesses(TokenReader(reader.rest), command, name, partition)
    action: Action = _action(reader, command, name, partition)
    if isinstance(action, DropPartitions):
        accesses = [command_access(command, name, spec) for spec in action.partitions]
        if any(value is None for spec in action.partitions for _, value in spec):
            action = NotRun(because="a partition is not named by key = value alone; name each partition that you drop")
    return Statement(name=f"ALTER TABLE {_form(command)}", accesses=tuple(accesses), action=action)


def _form(command: Command) -> str:
    """Returns the name of the form, which is the same with and without IF EXISTS."""
    return command.name.replace(" IF NOT EXISTS", "").replace(" IF EXISTS", "")


def _action(reader: TokenReader, command: Command, name: Name, partition: Spec | None) -> Action:
    if command.words == ("compact",):
        return compact(reader, name, partition)
    parse = {
        "ADD PARTITION": _add_partitions,
        "DROP PARTITION": _drop_partitions,
        "ADD COLUMNS": _add_columns,
        "RENAME TO": _rename,
        "SET TBLPROPERTIES": _set_properties,
        "UNSET TBLPROPERTIES": _unset_properties,
    }.get(_form(command))
    if parse is None:
        return not_run("ALTER TABLE …")
    if partition is not None:
        return NotRun(
            because=f"ALTER TABLE … PARTITION … {command.name} changes one partition alone, which only Hive does"
        )
    action = parse(reader, command, name)
    reader.end()
    return action


def _add_partitions(reader: TokenReader, command: Command, name: Name) -> Action:
    partitions: list[tuple[Spec, str | None]] = []
    while True:
        spec = reader.spec()
        partitions.append((spec, reader.text() if reader.take("location") else None))
        if not reader.take("partition"):
            break
    return AddPartitions(table=name, if_not_exists="exists" in command.words, partitions=tuple(partitions))


def _drop_partitions(reader: TokenReader, command: Command, name: Name) -> Action:
    partitions = [reader.spec(comparisons=True)]
    while reader.take(","):
        reader.need("partition")
        partitions.append(reader.spec(comparisons=True))
    purge = reader.take("purge")
    return DropPartitions(table=name, if_exists="exists" in command.words, partitions=tuple(partitions), purge=purge)


def _add_columns(reader: TokenReader, command: Command, name: Name) -> Action:
    added = parse_column_definitions(reader)
    if not reader.take("restrict") and reader.at("cascade"):
        raise reader.bad("the end is expected (partitions share the columns of their table here)")
    return AddColumns(table=name, columns=added)


def _rename(reader: TokenReader, command: Command, name: Name) -> Action:
    return RenameTable(table=name, to=reader.name())


def _set_properties(reader: TokenReader, command: Command, name: Name) -> Action:
    return SetProperties(table=name, properties=reader.properties())


def _unset_properties(reader: TokenReader, command: Command, name: Name) -> Action:
    reader.take("if", "exists")
    reader.need("(")
    keys = [reader.text()]
    while reader.take(","):
        keys.append(reader.text())
    reader.need(")")
    return SetProperties(table=name, properties=tuple((key, None) for key in dict.fromkeys(keys)))


def _accesses(reader: TokenReader, command: Command, name: Name, partition: Spec | None) -> list[Access]:
    if command.words[-1] == "partition" and reader.at("("):
        named = TokenReader(reader.rest).spec(comparisons=True)
        partition = named if partition is None else partition
    if command.words == ("set", "tblproperties") and any(t.value.lower() == "transactional" for t in reader.rest):
        command = data.CONVERSION
    adds = command.words[0] == "add" and command.words[-1] == "partition"
    if adds:
        # Hive locks the table, since the partition does not exist yet; the old manager locks its future name.
        return [replace(command_access(command, name, partition), makes=False)]
    if command.words == ("rename", "to"):
        renamed = reader.name()
        parent = Access(kind=AccessKind.DDL_SHARED, name=database_named(renamed.database or name.database))
        return [command_access(command, name), parent]
    if command.words[0] == "exchange":
        reader.skip_to("with")
        reader.need("with", "table")
        return [
            replace(command_access(command, name, partition), makes=False),
            Access(kind=AccessKind.READ, name=reader.name()),
        ]
    if partition is not None and command.old_lock is OldLock.TABLE:
        command = replace(command, old_lock=OldLock.PARTITION)
    return [command_access(command, name, partition)]


def _materialized_view(reader: TokenReader) -> Statement:
    name = reader.name()
    if reader.at("enable", "rewrite") or reader.at("disable", "rewrite"):
        access = command_access(data.REWRITE, name)
        return Statement(name="ALTER OTHER", accesses=(access,), action=not_run("ALTER OTHER"))
    raise reader.bad(
        "ENABLE or DISABLE REWRITE (other forms lock what the view's query reads; explain that) is expected"
    )
