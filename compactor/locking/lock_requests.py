"""Lock requests, and the order in which all statements and roles make them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactor.locking.lock_types import LockType


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRequest:
    """A lock on a partition, a table (``partition`` None) or a database (``table`` None), named as Hive stores it.

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
    """Returns shared locks on everything above ``request`` (database, table, leading parts of a partition), then it.

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
