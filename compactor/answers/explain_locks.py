"""Explains the locks that a statement would take, from the metastore's description of its tables."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid.names import Layout
from compactor.acid.partition_names import part_name
from compactor.locking import statement_locks
from compactor.locking.statement_locks import PlannedLock, TableFacts
from compactor.locking.statement_rules import HIVE_3, HIVE_4, Accessing, Name
from compactor.metastore.catalog.values import Table, is_true, parameter
from compactor.site.site import Site
from compactor.statements.parsed_actions import Explained, ExplainLocks, Statement
from compactor.statements.parser import parse

_VIEWS = frozenset({"VIRTUAL_VIEW"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLock:
    """One lock of EXPLAIN LOCKS; ``operation`` is what the statement does there."""

    database: str
    table: str | None
    partition: str | None
    lock_type: str
    operation: str

    def __str__(self) -> str:
        """Returns Hive's form: ``db.table.partition -> TYPE``."""
        names = ".".join(name for name in (self.database, self.table, self.partition) if name is not None)
        return f"{names} -> {self.lock_type}"

    def to_json(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedLocks:
    """EXPLAIN LOCKS of one statement."""

    statement: str
    locks: tuple[ExplainedLock, ...]

    def to_json(self) -> dict[str, object]:
        return {"statement": self.statement, "locks": [lock.to_json() for lock in self.locks]}


def explain_locks(site: Site, text: str, *, database: str = "default", old: bool = False) -> ExplainedLocks:
    """Returns the locks of the statement ``text``; see ``locks_of_statement``.

    Raises:
        BadStatement: the statement is unknown.
        Refused: one of its tables or partition keys does not exist.
        NotSupported: it reads a view.
    """
    return locks_of_statement(site, parse(text), database=database, old=old)


def locks_of_statement(
    site: Site, statement: Statement, *, database: str = "default", old: bool = False
) -> ExplainedLocks:
    """Returns the locks of ``statement``, or of the one that it explains; ``database`` is the current one.

    The version of the metastore's schema decides which Hive's rules apply. With ``old`` those of the lock manager without
    transactions apply, with types S and X.

    Raises:
        Refused: one of its tables or partition keys does not exist.
        NotSupported: it reads a view.
    """
    explained: Explained = statement.action.explained if isinstance(statement.action, ExplainLocks) else statement
    if old:
        requests = statement_locks.old_locks(explained, _Tables(site, database).look, database)
        locks = [(r, "X" if r.type.name == "EXCLUSIVE" else "S", "") for r in requests]
    else:
        planned = planned_locks(site, explained, database)
        locks = [(p.request, p.request.type.name, p.operation.value) for p in planned]
    return ExplainedLocks(
        statement=explained.name,
        locks=tuple(
            ExplainedLock(
                database=request.database,
                table=request.table,
                partition=request.partition,
                lock_type=kind,
                operation=operation,
            )
            for request, kind, operation in locks
        ),
    )


def planned_locks(site: Site, statement: Accessing, database: str) -> tuple[PlannedLock, ...]:
    """Returns the locks that ``statement`` takes on this metastore; see ``locks_of_statement``."""
    hive = HIVE_4 if site.metastore.dialect.layout is Layout.VISIBILITY else HIVE_3
    return statement_locks.locks(statement, _Tables(site, database).look, site.settings, database, hive)


class _Tables:
    """The facts of the tables that one statement names, each read once."""

    def __init__(self, site: Site, current: str) -> None:
        self._catalog = site.metastore.catalog
        self._current = current
        self._known: dict[Name, TableFacts] = {}

    def look(self, name: Name) -> TableFacts:
        if name not in self._known:
            table = self._catalog.table(name.database or self._current, name.table)
            self._known[name] = self._facts(table)
        return self._known[name]

    def _facts(self, table: Table) -> TableFacts:
        return TableFacts(
            database=table.database,
            table=table.name,
            transactional=table.is_transactional,
            external=table.type == "EXTERNAL_TABLE",
            view=table.type in _VIEWS,
            soft_deletes=is_true(parameter(table.parameters, "soft_delete")),
            keys=tuple(column.name.lower() for column in table.partition_keys),
            partitions=self._catalog.partitions(table) if table.partition_keys else (),
            name_of=part_name,
        )
