"""The phases of an entry that a worker compacts.

Claimed, located, admitted, opened, viewed, planned, staged, committed. See ``site.entry_group``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.publish.stage import Staged
from compactor.site.entry_group import advance_to
from compactor.site.run_as import run_as
from compactor.site.site import Site, Target

if TYPE_CHECKING:
    from compactor.worker.planning import ReadScope


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Claimed:
    """An entry that this worker has claimed. ``started`` is a time of the monotonic clock."""

    site: Site
    entry: Entry
    worker_id: str
    started: float

    @property
    def rebalances(self) -> bool:
        return self.entry.type is CompactionType.REBALANCE

    def located(self, target: Target) -> Located:
        """Returns the entry with its table or partition, and the user for whom it is compacted.

        Raises:
            CompactorError: the user cannot be determined; see ``site.run_as``.
        """
        user = run_as(self.site, target) or target.table.owner or self.site.user
        return advance_to(Located, self, target=target, run_as=user)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Located(Claimed):
    """An entry whose table or partition is known.

    ``run_as`` is the user that its row records: the user who compacts it, else the owner of the table, as whom Hive's
    cleaner works.
    """

    target: Target
    run_as: str

    def admitted(self, file_format: FileFormat | None) -> Admitted:
        return advance_to(Admitted, self, file_format=file_format)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Admitted(Located):
    """An entry of a kind that a worker compacts.

    ``file_format`` is that of an insert-only table, else None.
    """

    file_format: FileFormat | None

    def opened(self, txn: TxnId) -> Opened:
        return advance_to(Opened, self, txn=txn)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opened(Admitted):
    """An entry with a compaction transaction. From here on, ending the entry also ends the transaction."""

    txn: TxnId

    def viewed(self, scope: ReadScope) -> Viewed:
        return advance_to(Viewed, self, scope=scope)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Viewed(Opened):
    """An entry whose view is known."""

    scope: ReadScope

    def planned(self, plan: Plan, *, note: str = "") -> Planned:
        """Returns the entry with ``plan``. An entry that was staged already goes back to this phase."""
        return advance_to(Planned, self, plan=plan, note=note)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Planned(Viewed):
    """An entry with a plan. ``note`` says why the plan differs from the requested compaction.

    Empty if it does not.
    """

    plan: Plan
    note: str = ""

    def replanned(self, plan: Plan) -> Planned:
        return advance_to(Planned, self, plan=plan)

    def staged_as(self, staged: Staged) -> StagedEntry:
        return advance_to(StagedEntry, self, staged=staged)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StagedEntry(Planned):
    """An entry whose output is complete in the staging directory.

    Only from here on can output have a final name.
    """

    staged: Staged
    is_alone: bool = False  #: true if its transaction holds the exclusive lock

    def alone(self) -> StagedEntry:
        return advance_to(StagedEntry, self, is_alone=True)

    def as_major(self, reason: str) -> MustBeMajor:
        return advance_to(MustBeMajor, self, reason=reason)

    def committed(self) -> Committed:
        return advance_to(Committed, self)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MustBeMajor(StagedEntry):
    """A minor that may not be named as it is.

    None of its output has a final name; it is planned again as a major.
    """

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Committed(StagedEntry):
    """An entry whose output has its final names and whose transaction has certainly committed."""
