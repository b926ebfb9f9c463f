"""Lock requests, their order, the four lock types of Hive 4, and which locks conflict."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class LockType(enum.Enum):
    """HL_LOCK_TYPE, from the weakest to the strongest."""

    SHARED_READ = "r"
    SHARED_WRITE = "w"
    EXCL_WRITE = "x"
    EXCLUSIVE = "e"

    @property
    def strength(self) -> int:
        """The lock's rank; a stronger lock excludes every lock that a weaker one excludes."""
        return _STRENGTH[self]


_STRENGTH = {kind: rank for rank, kind in enumerate(LockType)}
_R, _W, _X, _E = LockType

#: The existing types with which each requested type is compatible. Symmetric, as in Hive 4.
_COMPATIBLE = {
    _R: frozenset({_R, _W, _X}),
    _W: frozenset({_R, _W}),
    _X: frozenset({_R}),
    _E: frozenset[LockType](),
}


class Lockable(Protocol):
    """A lock's object and type; ``table`` None is the whole database, ``partition`` None the whole table."""

    @property
    def database(self) -> str: ...
    @property
    def table(self) -> str | None: ...
    @property
    def partition(self) -> str | None: ...
    @property
    def type(self) -> LockType: ...


def compatible(requested: LockType, existing: LockType, *, semi_shared: bool = False) -> bool:
    """Returns true if ``requested`` may be granted despite an earlier ``existing`` lock on the object.

    ``semi_shared`` selects Hive 3, in which a SHARED_WRITE excludes other SHARED_WRITEs.
    """
    if semi_shared and requested is existing is LockType.SHARED_WRITE:
        return False
    return existing in _COMPATIBLE[requested]


def overlap(a: Lockable, b: Lockable) -> bool:
    """Returns true if two locks concern the same object: equal names, or one contains the other.

    A shared read of a whole database does not overlap an exclusive lock on one of its tables or partitions, in either
    direction (Hive's exception, so that CREATE TABLE does not wait for every DROP).
    """
    if a.database != b.database or _differ(a.table, b.table) or _differ(a.partition, b.partition):
        return False
    return not (_reads_database(a) and _excludes_inside(b)) and not (_reads_database(b) and _excludes_inside(a))


def conflicts(requested: Lockable, existing: Lockable, *, semi_shared: bool = False) -> bool:
    """Returns true if ``existing`` makes ``requested`` wait.

    Callers leave out locks of the same transaction.
    """
    return overlap(requested, existing) and not compatible(requested.type, existing.type, semi_shared=semi_shared)


def _differ(a: str | None, b: str | None) -> bool:
    return a is not None and b is not None and a != b


def _reads_database(lock: Lockable) -> bool:
    return lock.table is None and lock.type is LockType.SHARED_READ


def _excludes_inside(lock: Lockable) -> bool:
    return lock.table is not None and lock.type is LockType.EXCLUSIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """A lock on a partition, a table or a database, named as Hive stores it.

    For a table ``partition`` is None, for a database ``table`` too.

    Raises:
        ValueError: a partition without a table.
    """

    database: str
    table: str | None = None
    partition: str | None = None
    type: LockType

    def __post_init__(self) -> None:
        if self.table is None and self.partition is not None:
            raise ValueError(f"lock on partition {self.partition!r} of {self.database!r}: the table is missing")

    @property
    def object(self) -> tuple[str, str, str]:
        """The locked object as a sortable value; a parent sorts before everything below it."""
        return (self.database, self.table or "", self.partition or "")

    def __lt__(self, other: LockRequest) -> bool:
        return (*self.object, self.type.strength) < (*other.object, other.type.strength)

    def __str__(self) -> str:
        """Formats the request as EXPLAIN LOCKS prints it: ``db.table.partition -> TYPE``."""
        names = [name for name in (self.database, self.table, self.partition) if name is not None]
        return f"{'.'.join(names)} -> {self.type.name}"


def sorted_requests(requests: Iterable[LockRequest]) -> tuple[LockRequest, ...]:
    """Returns the strongest request for each object, sorted by name.

    Everybody uses this order, so two requesters cannot deadlock.
    """
    strongest: dict[tuple[str, str, str], LockRequest] = {}
    for request in requests:
        known = strongest.get(request.object)
        if known is None or known.type.strength < request.type.strength:
            strongest[request.object] = request
    return tuple(sorted(strongest.values()))


def with_parents(request: LockRequest) -> tuple[LockRequest, ...]:
    """Returns shared locks on everything above ``request``, then ``request``.

    Above are the database, the table and leading parts of a partition.

    The lock manager without transactions needs them, because its locks have no effect on objects above or below.
    """
    shared, parts = LockType.SHARED_READ, (request.partition or "").split("/")
    above = []
    if request.table is not None:
        above.append(LockRequest(database=request.database, type=shared))
    if request.partition is not None:
        names = [None, *("/".join(parts[:n]) for n in range(1, len(parts)))]
        above += [
            LockRequest(database=request.database, table=request.table, partition=name, type=shared) for name in names
        ]
    return (*above, request)
