"""The locks a statement takes: Hive 4's, Hive 3.1's, and those of the manager without transactions (``old_locks``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from compactor.base.errors import NotSupported, Refused
from compactor.locking.accesses import Access, Accessing, Name, Spec
from compactor.locking.lock_requests import LockRequest, sorted_requests, with_parents
from compactor.locking.lock_types import LockType
from compactor.locking.statement_rules import HIVE_4, AccessKind, HiveRules, OldLock, Operation, Rule
from compactor.settings.precedence import Settings

_MAX_PARTITIONS = "hive.locks.max.partitions"
_ROWS = frozenset({AccessKind.UPDATE, AccessKind.DELETE, AccessKind.MERGE_INSERT})


class NamedPartition(Protocol):
    """A partition by its stored name, with its plain values."""

    @property
    def name(self) -> str: ...
    @property
    def values(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The facts about a table on which its locks depend."""

    database: str
    table: str
    transactional: bool = False
    external: bool = False
    view: bool = False
    soft_deletes: bool = False  #: table property ``soft_delete``
    keys: tuple[str, ...] = ()
    partitions: Sequence[NamedPartition] = ()
    name_of: Callable[[Sequence[str], Sequence[str]], str] = lambda keys, values: "/".join(
        f"{k}={v}" for k, v in zip(keys, values, strict=True)
    )

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


TableLookup = Callable[[Name], TableFacts]  #: returns the facts of a table; raises NotFound


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLock:
    """A lock that a statement takes, and the operation it is for."""

    request: LockRequest
    operation: Operation

    def __str__(self) -> str:
        return str(self.request)


def locks(
    statement: Accessing, look: TableLookup, settings: Settings, current: str = "default", hive: HiveRules = HIVE_4
) -> tuple[PlannedLock, ...]:
    """Returns the locks of a ``hive``, sorted, only the strongest for each object; none if locking is off.

    Hive's own default of ``hive.support.concurrency`` is false, and ACID tables cannot be used with it, so only an
    explicit false counts.

    Raises:
        Refused: a table or partition key does not exist.
        NotSupported: the statement reads a view, whose query is not known here.
    """
    if not locking_is_on(settings):
        return ()
    strongest: dict[tuple[str, str, str], PlannedLock] = {}
    for access in statement.accesses:
        for planned in _of_access(access, look, settings, current, hive):
            known = strongest.get(planned.request.object)
            if known is None or known.request.type.strength < planned.request.type.strength:
                strongest[planned.request.object] = planned
    return tuple(sorted(strongest.values(), key=lambda p: p.request.object))


def locking_is_on(settings: Settings) -> bool:
    """Tells whether statements take locks at all: always, unless ``hive.support.concurrency`` is explicitly false."""
    key = "hive.support.concurrency"
    return settings.source(key) == "default" or settings.boolean(key)


def write_lock(kind: AccessKind, settings: Settings, hive: HiveRules = HIVE_4) -> LockType | None:
    """Returns the lock of a statement that writes into a transactional table or partition; None for no lock."""
    return _rule(kind, True, settings, hive).lock if locking_is_on(settings) else None


def _of_access(
    access: Access, look: TableLookup, settings: Settings, current: str, hive: HiveRules
) -> Iterator[PlannedLock]:
    database = access.name.database or current
    if access.is_database:
        kind = _on_database(access, database, settings) if hive.softens else access.kind
        rule = _rule(kind, False, settings, hive)
        if rule.lock is not None:
            yield PlannedLock(request=LockRequest(database=database, type=rule.lock), operation=rule.operation)
        return
    if access.kind is AccessKind.CTAS:
        rule = _rule(access.kind, bool(access.makes), settings, hive)
        if rule.lock is not None:
            request = LockRequest(database=database, table=access.name.table, type=rule.lock)
            yield PlannedLock(request=request, operation=rule.operation)
        return
    facts = look(access.name)
    if not _takes_part(access, facts, settings, hive):
        return
    kind = _what(access, facts, settings) if hive.softens else access.kind
    rule = _rule(kind, facts.transactional, settings, hive)
    if rule.lock is None:
        return
    for name in _objects(access, facts, settings):
        request = LockRequest(database=facts.database, table=facts.table, partition=name, type=rule.lock)
        yield PlannedLock(request=request, operation=rule.operation)


def _takes_part(access: Access, facts: TableFacts, settings: Settings, hive: HiveRules) -> bool:
    if access.kind in _ROWS and not facts.transactional:
        raise Refused(
            f"{facts} is not transactional: rows are only updated, deleted and merged in transactional tables"
        )
    if facts.view and access.kind is AccessKind.READ:
        raise NotSupported(f"{facts} is a view: its query is not known here; name the tables it reads")
    if facts.view:
        return False
    return not facts.external or (hive.softens and settings.boolean("hive.txn.ext.locking.enabled"))


def _on_database(access: Access, database: str, settings: Settings) -> AccessKind:
    if access.command is None or not settings.boolean("hive.acid.lockless.reads.enabled"):
        return access.kind
    if access.cascades:
        raise NotSupported(
            f"DROP DATABASE {database} CASCADE: with hive.acid.lockless.reads.enabled Hive locks it as a whole or table "
            "by table, depending on how each was created, which is not known here"
        )
    return AccessKind.DDL_EXCL_WRITE


def _what(access: Access, facts: TableFacts, settings: Settings) -> AccessKind:
    """Returns the kind of access, softened for changes that leave the old files to the cleaner and so spare readers."""
    command = access.command
    if command is None or not facts.transactional or access.kind is AccessKind.DDL_NO_LOCK:
        return access.kind
    if settings.boolean("hive.acid.lockless.reads.enabled"):
        adds = access.makes is not None
        soft = command.lockless and (access.kind is AccessKind.DDL_EXCLUSIVE or adds)
        return AccessKind.DDL_EXCL_WRITE if soft else access.kind
    if command.softened_by is None or not settings.boolean(command.softened_by):
        return access.kind
    drops = command.words[0] == "drop" and "partition" not in command.words
    return access.kind if drops and not facts.soft_deletes else AccessKind.DDL_EXCL_WRITE


def _rule(kind: AccessKind, transactional: bool, settings: Settings, hive: HiveRules) -> Rule:
    for rule in hive.rules:
        fits = rule.kind is kind and rule.transactional in (None, transactional)
        if fits and all(settings.boolean(key) is wanted for key, wanted in rule.when):
            return rule
    raise AssertionError(f"every {kind} has a final rule without conditions")


def _objects(access: Access, facts: TableFacts, settings: Settings) -> Sequence[str | None]:
    """Returns the partitions to lock; None stands for the table."""
    if not facts.keys:
        if access.partition is not None:
            raise Refused(f"{facts} is not partitioned, but the statement names a partition")
        return (None,)
    if access.kind in (AccessKind.INSERT, AccessKind.INSERT_OVERWRITE):
        return (_static(access.partition, facts),)
    if access.makes is not None or (access.partition is None and access.command is not None):
        return (None,)
    if access.kind is AccessKind.MERGE_INSERT:
        return (None,)
    found: list[str | None] = [p.name for p in _matching(access, facts)]
    if access.kind is AccessKind.READ and 0 < settings.integer(_MAX_PARTITIONS) <= len(found):
        return (None,)
    if access.moves:
        return [*found, None]
    return found or (None,)


def _static(spec: Spec | None, facts: TableFacts) -> str | None:
    """Returns the one partition that is written; None (the table) if a value is only known row by row."""
    values = dict(_checked(spec or (), facts))
    plain = [values.get(key) for key in facts.keys]
    known = [value for value in plain if value is not None]
    return facts.name_of(facts.keys, known) if len(known) == len(facts.keys) else None


def _matching(access: Access, facts: TableFacts) -> list[NamedPartition]:
    wanted: dict[str, str] = {}
    spec = _checked(access.partition or (), facts)
    for key, value in (*spec, *((k, v) for k, v in access.where if k in facts.keys)):
        if value is not None:
            wanted[key] = value
    return [p for p in facts.partitions if all(p.values[facts.keys.index(k)] == v for k, v in wanted.items())]


def _checked(spec: Spec, facts: TableFacts) -> Spec:
    for key, _ in spec:
        if key not in facts.keys:
            raise Refused(f"{facts} has no partition key {key!r}; it has {', '.join(facts.keys) or 'none'}")
    return spec


def old_locks(statement: Accessing, look: TableLookup, current: str = "default") -> tuple[LockRequest, ...]:
    """Returns the shared and exclusive locks of the manager without transactions, including parents, sorted.

    A partition ``p=1/q=2`` has the parents ``p=1``, its table and its database, each with a shared lock.
    """
    wanted: list[LockRequest] = []
    for access in statement.accesses:
        wanted += _old(access, look, current)
    return sorted_requests(wanted)


def _old(access: Access, look: TableLookup, current: str) -> Iterable[LockRequest]:
    database = access.name.database or current
    if access.is_database:
        kind = LockType.EXCLUSIVE if access.kind is AccessKind.DDL_EXCLUSIVE else LockType.SHARED_READ
        return [LockRequest(database=database, type=kind)]
    if access.kind is AccessKind.CTAS:
        return _with_parents(database, access.name.table, None, LockType.EXCLUSIVE)
    facts = look(access.name)
    here = (facts.database, facts.table)
    if access.kind is AccessKind.READ:
        read = [p.name for p in _matching(access, facts)] if facts.keys else []
        return [r for name in (None, *read) for r in _with_parents(*here, name, LockType.SHARED_READ)]
    if access.command is not None:
        return _old_command(access, facts)
    return _with_parents(*here, _prefix(access.partition, facts), LockType.EXCLUSIVE)


def _old_command(access: Access, facts: TableFacts) -> tuple[LockRequest, ...]:
    assert access.command is not None
    here = (facts.database, facts.table)
    match access.command.old_lock:
        case None:
            return ()
        case OldLock.SHARED:
            return _with_parents(*here, None, LockType.SHARED_READ)
        case OldLock.PARTITION if access.partition is not None:
            return _with_parents(*here, _prefix(access.partition, facts), LockType.EXCLUSIVE)
        case _:
            return _with_parents(*here, None, LockType.EXCLUSIVE)


def _prefix(spec: Spec | None, facts: TableFacts) -> str | None:
    """Returns the part of a partition's name known before any row is: all leading keys with a value."""
    values = dict(_checked(spec or (), facts))
    known: list[str] = []
    for key in facts.keys:
        value = values.get(key)
        if value is None:
            break
        known.append(value)
    return facts.name_of(facts.keys[: len(known)], known) if known else None


def _with_parents(database: str, table: str, partition: str | None, kind: LockType) -> tuple[LockRequest, ...]:
    return with_parents(LockRequest(database=database, table=table, partition=partition, type=kind))
