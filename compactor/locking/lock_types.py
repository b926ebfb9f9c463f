"""The four lock types of Hive 4 and which may stand beside which (Hive's ``CheckLockFunction``)."""

from __future__ import annotations

import enum
from typing import Protocol


class LockType(enum.Enum):
    """HL_LOCK_TYPE, from the weakest to the strongest."""

    SHARED_READ = "r"
    SHARED_WRITE = "w"
    EXCL_WRITE = "x"
    EXCLUSIVE = "e"

    @property
    def strength(self) -> int:
        """Rank by what a lock keeps out; a stronger one keeps out all that a weaker one does."""
        return _STRENGTH[self]


_STRENGTH = {kind: rank for rank, kind in enumerate(LockType)}
_R, _W, _X, _E = LockType

#: For each requested type, the existing ones that it may stand beside. Symmetric, as in Hive 4.
_COMPATIBLE = {
    _R: frozenset({_R, _W, _X}),
    _W: frozenset({_R, _W}),
    _X: frozenset({_R}),
    _E: frozenset[LockType](),
}


class Lockable(Protocol):
    """Anything that names what is locked and how; ``table`` None is the database, ``partition`` None the table."""

    @property
    def database(self) -> str: ...
    @property
    def table(self) -> str | None: ...
    @property
    def partition(self) -> str | None: ...
    @property
    def type(self) -> LockType: ...


def compatible(requested: LockType, existing: LockType, *, semi_shared: bool = False) -> bool:
    """Whether ``requested`` may be granted while ``existing`` is held, or waits before it, on the same object.

    ``semi_shared`` is Hive 3, whose SHARED_WRITE keeps its like away as EXCL_WRITE does in Hive 4.
    """
    if semi_shared and requested is existing is LockType.SHARED_WRITE:
        return False
    return existing in _COMPATIBLE[requested]


def overlap(a: Lockable, b: Lockable) -> bool:
    """Whether two locks are about the same thing: equal names, where a missing name covers everything below it.

    A shared read of a whole database doesn't meet an exclusive lock of one of its tables or partitions, in either
    direction (Hive's exception, so that CREATE TABLE doesn't wait for every DROP).
    """
    if a.database != b.database or _apart(a.table, b.table) or _apart(a.partition, b.partition):
        return False
    return not (_reads_database(a) and _excludes_inside(b)) and not (_reads_database(b) and _excludes_inside(a))


def conflicts(requested: Lockable, existing: Lockable, *, semi_shared: bool = False) -> bool:
    """Whether ``existing`` keeps ``requested`` waiting. The caller leaves out locks of the same transaction."""
    return overlap(requested, existing) and not compatible(requested.type, existing.type, semi_shared=semi_shared)


def _apart(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and a != b


def _reads_database(lock: Lockable) -> bool:
    return lock.table is None and lock.type is LockType.SHARED_READ


def _excludes_inside(lock: Lockable) -> bool:
    return lock.table is not None and lock.type is LockType.EXCLUSIVE
