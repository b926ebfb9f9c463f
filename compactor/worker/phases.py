"""The phases of one entry in a worker's hands. Each adds what its step found out, so a step's signature says how far an
entry must have come: claimed, located, admitted, opened, viewed, planned, staged, committed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from typing import Any, TypeVar

from compactor.base.ids import TxnId
from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.publish.stage import Staged
from compactor.site.run_as import run_as
from compactor.site.site import Site, Target
from compactor.worker.planning import ReadScope


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claimed:
    """An entry that is this worker's. ``started`` is by the monotonic clock."""

    site: Site
    entry: Entry
    worker_id: str
    started: float

    @property
    def rebalances(self) -> bool:
        return self.entry.type is CompactionType.REBALANCE

    def located(self, target: Target) -> Located:
        """Returns the entry at its table or partition, with the user for whom it is compacted.

        Raises:
            CompactorError: he cannot be found out; see ``site.run_as``.
        """
        user = run_as(self.site, target) or target.table.owner or self.site.user
        return _next(Located, self, target=target, run_as=user)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Located(Claimed):
    """Its table or partition has been found. ``run_as`` is recorded: as whom it is compacted, else the table's owner, as
    whom Hive's cleaner works."""

    target: Target
    run_as: str

    def admitted(self, file_format: FileFormat | None) -> Admitted:
        return _next(Admitted, self, file_format=file_format)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admitted(Located):
    """It is of a kind that a worker compacts. ``file_format`` is that of an insert-only table."""

    file_format: FileFormat | None

    def opened(self, txn: TxnId) -> Opened:
        return _next(Opened, self, txn=txn)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opened(Admitted):
    """It has a compaction transaction. From here on, ending the entry means ending that."""

    txn: TxnId

    def viewed(self, scope: ReadScope) -> Viewed:
        return _next(Viewed, self, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Viewed(Opened):
    """Its view is known."""

    scope: ReadScope

    def planned(self, plan: Plan, *, note: str = "") -> Planned:
        """Returns the entry with ``plan``; one that was staged already is to be staged again."""
        return _next(Planned, self, plan=plan, note=note)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned(Viewed):
    """Its work is known. ``note`` says why that is another compaction than the requested one; empty if it is not."""

    plan: Plan
    note: str = ""

    def replanned(self, plan: Plan) -> Planned:
        return _next(Planned, self, plan=plan)

    def staged_as(self, staged: Staged) -> StagedEntry:
        return _next(StagedEntry, self, staged=staged)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedEntry(Planned):
    """Its output is complete in the staging directory. Only from here on can anything have been named."""

    staged: Staged
    is_alone: bool = False  #: its transaction holds the exclusive lock

    def alone(self) -> StagedEntry:
        return _next(StagedEntry, self, is_alone=True)

    def as_major(self, reason: str) -> MustBeMajor:
        return _next(MustBeMajor, self, reason=reason)

    def committed(self) -> Committed:
        return _next(Committed, self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MustBeMajor(StagedEntry):
    """It is a minor that may not be named as it is. Nothing of it has been named, and it is to be planned again."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Committed(StagedEntry):
    """Its output is named and its transaction committed, beyond doubt."""


_Phase = TypeVar("_Phase", bound=Claimed)


def _next(phase: type[_Phase], before: Claimed, **found: Any) -> _Phase:
    """Returns ``before`` in a later (or, to plan again, an earlier) ``phase``, with what the step found."""
    phases: tuple[Any, Any] = phase, type(before)
    kept = {name: getattr(before, name) for name in _shared(*phases) if name not in found}
    return phase(**kept, **found)


@cache
def _shared(phase: Any, before: Any) -> tuple[str, ...]:
    """Returns the fields that both phases, which are classes, have."""
    of_before = {field.name for field in fields(before)}
    return tuple(field.name for field in fields(phase) if field.name in of_before)
