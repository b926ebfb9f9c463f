"""What a worker has taken hold of of one entry, and how it lets go of it without a trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.errors import (
    BadFile,
    CompactorError,
    LockNotGranted,
    LostClaim,
    NotFound,
    Refused,
    StorageError,
)
from compactor.ids import TxnId
from compactor.rewrite.plan.file_format import FileFormat
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.publish.stage import Staged
from compactor.service import leftovers
from compactor.service.site import Site, Target, View
from compactor.service.worker.outcome import Outcome, Result
from compactor.service.worker.planning import ReadScope


@dataclass(slots=True, kw_only=True, eq=False)
class Hold:
    """One entry of a worker's, as far as it has come."""

    site: Site
    entry: Entry
    worker_id: str
    started: float  #: by the monotonic clock
    txn: TxnId | None = None
    target: Target | None = None
    file_format: FileFormat | None = None  #: of an insert-only table
    scope: ReadScope | None = None
    plan: Plan | None = None
    staged: Staged | None = None
    is_alone: bool = False  #: holds the exclusive lock
    note: str = ""  #: what is to be told of a compaction that came to another end than it was asked for

    @property
    def rebalances(self) -> bool:
        return self.entry.type is CompactionType.REBALANCE

    @property
    def run_as(self) -> str:
        """The request's user, else the table's owner, else ours."""
        return self.entry.run_as or self.the_target.table.owner or self.site.user

    @property
    def transaction(self) -> TxnId:
        assert self.txn is not None
        return self.txn

    @property
    def the_target(self) -> Target:
        assert self.target is not None
        return self.target

    @property
    def the_view(self) -> View:
        assert self.scope is not None
        return self.scope.view

    @property
    def the_plan(self) -> Plan:
        assert self.plan is not None
        return self.plan

    @property
    def the_staged(self) -> Staged:
        assert self.staged is not None
        return self.staged

    def abandon(self) -> None:
        """Hide what it named and abort the transaction with that, then remove what it staged (PROTOCOL 6)."""
        if self.txn is None:
            return
        txn, target = self.txn, None if self.staged is None else self.target  # before that nothing can be named
        hide = leftovers.hider(self.site, target, is_alone=self.is_alone)
        self.site.metastore.transactions.abort(txn, "compaction transaction abort", lambda newest: hide(txn, newest))
        if self.target is not None:
            leftovers.clear_aborted(self.site, self.target, self.txn)

    def put_back(self) -> None:
        """Leave nothing behind, and let the request wait again."""
        self.abandon()
        self.site.metastore.endings.requeue(self.entry.id, self.worker_id)

    def ended_by(self, error: CompactorError) -> Outcome:
        """Leave nothing behind, and give the row the result that ``error`` means.

        Raises:
            CompactorError: the database doesn't answer; the row stays for repair.
        """
        endings = self.site.metastore.endings
        if isinstance(error, StorageError | BadFile) and self._is_elsewhere():
            error = LostClaim(
                f"{self.entry.entity} was dropped, renamed or moved while it was compacted: {error}",
            )
        if isinstance(error, LostClaim):
            ended: list[bool] = []
            outcome = self._let_go(
                Result.LOST, error, lambda why: ended.append(endings.end_aborted(self.entry.id, self.worker_id))
            )
            return replace(outcome, result=Result.ABORTED) if any(ended) else outcome
        if isinstance(error, LockNotGranted):
            return self._let_go(Result.WAITING, error, lambda why: endings.requeue(self.entry.id, self.worker_id))
        result, state = (Result.REFUSED, State.REFUSED) if isinstance(error, Refused) else (Result.FAILED, State.FAILED)
        return self._let_go(result, error, lambda why: endings.finish(self.entry, state, why))

    def _let_go(self, result: Result, error: CompactorError, then: Callable[[str], object]) -> Outcome:
        """Leaves nothing behind, then settles the row, if it is still this worker's: another one may have it by now.

        Where storage doesn't let us take our leavings away, the row stays as it is; repair tries again (PROTOCOL 6).
        """
        try:
            self.abandon()
            then(str(error))
        except LostClaim as lost:
            return Outcome(entry=self.entry, result=Result.LOST, message=f"{error}; {lost}")
        except (StorageError, LockNotGranted) as left:
            message = f"{error}; what was staged or named cannot be taken away, the next pass tries again: {left}"
            return Outcome(entry=self.entry, result=Result.FAILED, message=message)
        return Outcome(entry=self.entry, result=result, message=str(error))

    def _is_elsewhere(self) -> bool:
        """Whether what was read is not there any more under its name: what storage says then is no fault of the files."""
        read = self.target
        if read is None:
            return False
        try:
            now = self.site.target(self.entry.entity, self.entry.properties)
        except NotFound:
            return True
        partitions = [found.partition.id if found.partition else None for found in (now, read)]
        return (now.table.id, now.location, partitions[0]) != (read.table.id, read.location, partitions[1])
