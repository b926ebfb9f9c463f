"""The locks of a statement in Hive 4, Hive 3.1, and without transactions (``old_locks``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from compactor.base.errors import NotSupported, Refused
from compactor.locking.lock_types import LockRequest, LockType, sorted_requests, with_parents
from compactor.locking.statement_rules import (
    HIVE_4,
    Access,
    Accessing,
    AccessKind,
    HiveRules,
    Name,
    OldLock,
    Operation,
    Rule,
    Spec,
)
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
    """Returns the strongest lock for each object, sorted by name, by the rules of ``hive``.

    There are none if locking is off.

    Hive's own default of ``hive.support.concurrency`` is false, but ACID tables need true. So only an explicit false
    switches locking off.

    Raises:
        Refused: a table or partition key does not exist.
        NotSupported: the statement reads a view, whose query is not known here.
    """
    if not locking_is_on(settings):
        return ()
    strongest: dict[tuple[str, str, str], PlannedLock] = {}
    for access in statement.accesses:
        for planned in _plan_access(access, look, settings, current, hive):
            known = strongest.get(planned.request.object)
            if known is None or known.request.type.strength < planned.request.type.strength:
                strongest[planned.request.object] = planned
    return tuple(sorted(strongest.values(), key=lambda p: p.request.object))


def locking_is_on(settings: Settings) -> bool:
    """Returns true if statements take locks.

    Only an explicit ``hive.support.concurrency=false`` prevents it.
    """
    key = "hive.support.concurrency"
    return settings.source(key) == "default" or settings.boolean(key)


def write_lock(kind: AccessKind, settings: Settings, hive: HiveRules = HIVE_4) -> LockType | None:
    """Returns the lock of a statement that writes into a transactional table or partition.

    Returns None for no lock.
    """
    return _rule(kind, True, settings, hive).lock if locking_is_on(settings) else None


def _plan_access(
    access: Access, look: TableLookup, settings: Settings, current: str, hive: HiveRules
) -> Iterator[PlannedLock]:
    database = access.name.database or current
    if access.is_database:
        kind = _database_kind(access, database, settings) if hive.softens else access.kind
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
    if not _takes_locks(access, facts, settings, hive):
        return
    kind = _softened_kind(access, facts, settings) if hive.softens else access.kind
    rule = _rule(kind, facts.transactional, settings, hive)
    if rule.lock is None:
        return
    for name in _objects(access, facts, settings):
        request = LockRequest(database=facts.database, table=facts.table, partition=name, type=rule.lock)
        yield PlannedLock(request=request, operation=rule.operation)


def _takes_locks(access: Access, facts: TableFacts, settings: Settings, hive: HiveRules) -> bool:
    if access.kind in _ROWS and not facts.transactional:
        raise Refused(
            f"{facts} is not transactional: rows are only updated, deleted and merged in transactional tables"
        )
    if facts.view and access.kind is AccessKind.READ:
        raise NotSupported(f"{facts} is a view: its query is not known here; name the tables it reads")
    if facts.view:
        return False
    return not facts.external or (hive.softens and settings.boolean("hive.txn.ext.locking.enabled"))


def _database_kind(access: Access, database: str, settings: Settings) -> AccessKind:
    if access.command is None or not settings.boolean("hive.acid.lockless.reads.enabled"):
        return access.kind
    if access.cascades:
        raise NotSupported(
            f"DROP DATABASE {database} CASCADE: with hive.acid.lockless.reads.enabled Hive locks it as a whole or table "
            "by table, depending on how each was created, which is not known here"
        )
    return AccessKind.DDL_EXCL_WRITE


def _softened_kind(access: Access, facts: TableFacts, settings: Settings) -> AccessKind:
    """Returns the kind of access.

    It is weaker for changes that spare readers because they leave old files to the cleaner.
    """
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
        if fits and all(settings.boolean(key) is expected for key, expected in rule.when):
            return rule
    raise AssertionError(f"every {kind} has a final rule without conditions")


def _objects(access: Access, facts: TableFacts, settings: Settings) -> Sequence[str | None]:
    """Returns the partitions to lock; None stands for the table."""
    if not facts.keys:
        if access.partition is not None:
            raise Refused(f"{facts} is not partitioned, but the statement names a partition")
        return (None,)
    if access.kind in (AccessKind.INSERT, AccessKind.INSERT_OVERWRITE):
        return (_static_partition(access.partition, facts),)
    if access.makes is not None or (access.partition is None and access.command is not None):
        return (None,)
    if access.kind is AccessKind.MERGE_INSERT:
        return (None,)
    names: list[str | None] = [p.name for p in _matching_partitions(access, facts)]
    if access.kind is AccessKind.READ and 0 < settings.integer(_MAX_PARTITIONS) <= len(names):
        return (None,)
    if access.moves:
        return [*names, None]
    return names or (None,)


def _static_partition(spec: Spec | None, facts: TableFacts) -> str | None:
    """Returns the partition that is written; None (the table) if only the rows show a value."""
    values = dict(_check_keys(spec or (), facts))
    plain = [values.get(key) for key in facts.keys]
    known = [value for value in plain if value is not None]
    return facts.name_of(facts.keys, known) if len(known) == len(facts.keys) else None


def _matching_partitions(access: Access, facts: TableFacts) -> list[NamedPartition]:
    required: dict[str, str] = {}
    spec = _check_keys(access.partition or (), facts)
    for key, value in (*spec, *((k, v) for k, v in access.where if k in facts.keys)):
        if value is not None:
            required[key] = value
    return [p for p in facts.partitions if all(p.values[facts.keys.index(k)] == v for k, v in required.items())]


def _check_keys(spec: Spec, facts: TableFacts) -> Spec:
    for key, _ in spec:
        if key not in facts.keys:
            raise Refused(f"{facts} has no partition key {key!r}; it has {', '.join(facts.keys) or 'none'}")
    return spec


def old_locks(statement: Accessing, look: TableLookup, current: str = "default") -> tuple[LockRequest, ...]:
    """Returns the sorted locks of the manager without transactions, with all parents.

    They are shared and exclusive.

    A partition ``p=1/q=2`` has the parents ``p=1``, its table and its database, each with a shared lock.
    """
    requests: list[LockRequest] = []
    for access in statement.accesses:
        requests += _old_access_locks(access, look, current)
    return sorted_requests(requests)


def _old_access_locks(access: Access, look: TableLookup, current: str) -> Iterable[LockRequest]:
    database = access.name.database or current
    if access.is_database:
        kind = LockType.EXCLUSIVE if access.kind is AccessKind.DDL_EXCLUSIVE else LockType.SHARED_READ
        return [LockRequest(database=database, type=kind)]
    if access.kind is AccessKind.CTAS:
        return _with_parents(database, access.name.table, None, LockType.EXCLUSIVE)
    facts = look(access.name)
    here = (facts.database, facts.table)
    if access.kind is AccessKind.READ:
        read = [p.name for p in _matching_partitions(access, facts)] if facts.keys else []
        return [r for name in (None, *read) for r in _with_parents(*here, name, LockType.SHARED_READ)]
    if access.command is not None:
        return _old_command_locks(access, facts)
    return _with_parents(*here, _known_prefix(access.partition, facts), LockType.EXCLUSIVE)


def _old_command_locks(access: Access, facts: TableFacts) -> tuple[LockRequest, ...]:
    assert access.command is not None
    here = (facts.database, facts.table)
    match access.command.old_lock:
        case None:
            return ()
        case OldLock.SHARED:
            return _with_parents(*here, None, LockType.SHARED_READ)
        case OldLock.PARTITION if access.partition is not None:
            return _with_parents(*here, _known_prefix(access.partition, facts), LockType.EXCLUSIVE)
        case _:
            return _with_parents(*here, None, LockType.EXCLUSIVE)


def _known_prefix(spec: Spec | None, facts: TableFacts) -> str | None:
    """Returns the part of a partition's name that is known before any row: all leading keys with a value."""
    values = dict(_check_keys(spec or (), facts))
    known: list[str] = []
    for key in facts.keys:
        value = values.get(key)
        if value is None:
            break
        known.append(value)
    return facts.name_of(facts.keys[: len(known)], known) if known else None


def _with_parents(database: str, table: str, partition: str | None, kind: LockType) -> tuple[LockRequest, ...]:
    return with_parents(LockRequest(database=database, table=table, partition=partition, type=kind))
