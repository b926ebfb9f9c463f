"""The steps that a group of claimed entries takes together, from ``i -> w`` to ``w -> r`` (PROTOCOL 3 to 6).

Open a compaction transaction, shared lock, heartbeat -> list, repair, re-decide, plan -> record -> stage -> verify -> name
and commit in one database transaction.

Many entries are so small that asking the database for each of them would cost more than rewriting it. Each may fail, and
then drops out of its group alone (ADR 11, 16).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compactor.acid import txn_states
from compactor.base.errors import CompactorError, LockNotGranted, LostClaim, Refused
from compactor.base.steps import Step, reach
from compactor.compaction.decision import NothingToDo, enough
from compactor.compaction.states import CompactionType
from compactor.locking.lock_types import LockType
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish import stage
from compactor.rewrite.run.runner import Runner
from compactor.site import leftovers
from compactor.site.exclusive import renames
from compactor.site.heartbeat import Heartbeat, heartbeat_period_ms
from compactor.site.restored_database import must_not_be_older
from compactor.site.site import Look, Site, Targets, claims_of
from compactor.worker.admission import admit
from compactor.worker.commit import committing
from compactor.worker.ending import put_back
from compactor.worker.group import Group
from compactor.worker.outcome import Outcome, Result
from compactor.worker.phases import (
    Admitted,
    Claimed,
    Located,
    MustBeMajor,
    Opened,
    Planned,
    StagedEntry,
    Viewed,
)
from compactor.worker.planning import PlanRequest, plan_scope, scope_of
from compactor.worker.publication import publish
from compactor.worker.recording import record_alone, work_of
from compactor.worker.staging import Stager
from compactor.worker.worker_options import Options

TOGETHER_BYTES = 4 * 1024 * 1024  #: the most input of an entry that goes with others: none waits long for another


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRun:
    """Runs one group."""

    site: Site
    group: Group
    runner: Runner
    options: Options

    def run(self, claimed: Sequence[Claimed]) -> list[int]:
        """Brings each of the claimed entries as far as it goes.

        Returns:
            the ids of those that were put back, since they are too large to go with others.
        """
        left: list[int] = []
        try:
            opened = self._open(claimed)
            if opened:
                period = heartbeat_period_ms(self.site.settings)
                with Heartbeat(self.site.metastore.transactions, [one.txn for one in opened], period) as heart:
                    left = self._go_on(opened, heart)
        except BaseException as error:
            self.group.drop_all(error)
            if not isinstance(error, Exception):
                raise
        if self.group.broken is not None:
            raise self.group.broken
        return left

    def _open(self, claimed: Sequence[Claimed]) -> list[Opened]:
        """Refuses what cannot be compacted, and opens a transaction for each of the others."""
        admitted = self.group.advance(admit, self._locate(claimed))
        if not admitted:
            return []
        txns = self.site.metastore.transactions.open_all(_new_transactions(admitted))
        opened = [one.opened(txn) for one, txn in zip(admitted, txns, strict=True)]
        self.group.enter(opened)
        reach(Step.TXN_OPENED)
        return opened

    def _locate(self, claimed: Sequence[Claimed]) -> list[Located]:
        targets = Targets(self.site, [one.entry.entity for one in claimed])
        return self.group.advance(
            lambda one: one.located(targets.target(one.entry.entity, one.entry.properties)), claimed
        )

    def _go_on(self, opened: Sequence[Opened], heart: Heartbeat) -> list[int]:
        swept = self._sweep_before_locks(opened)
        viewed = self._view(self._lock(swept))
        planned = self.group.advance(self._planned_or_ended, viewed)
        small, left = self._leave_large(planned)
        stager = Stager(site=self.site, group=self.group, runner=self.runner, options=self.options, heart=heart)
        self._publish(stager, stager.stage(self._record(small)), heart)
        return left

    def _publish(self, stager: Stager, staged: Sequence[StagedEntry], heart: Heartbeat) -> None:
        must_not_be_older(self.site, remembering=False)  # a database that was put back may have given our numbers again
        threads = self.options.threads
        majors = publish(self.group, staged, heart, threads)
        if majors:
            planned = self.group.advance(self._planned_as_major, majors)
            publish(self.group, stager.stage(planned), heart, threads)  # of majors, which leave none to be done again

    def _sweep_before_locks(self, opened: Sequence[Opened]) -> list[Opened]:
        """Sweeps stores without rename first: that may need the table alone, which our own lock would prevent."""
        without_rename = [one for one in opened if not renames(self.site, one.target)]
        self.group.each(lambda one: leftovers.clear_leftovers(self.site, one.target), without_rename)
        return self.group.still(opened)

    def _lock(self, opened: Sequence[Opened]) -> list[Opened]:
        """Takes a shared lock, beside everybody who doesn't want the table alone; a rebalance keeps writers of old rows
        out as well.

        Entries that don't get it at once drop out: nobody queues behind a compaction that waits.
        """
        site, group = self.site, self.group
        if any(one.rebalances for one in opened):
            group.each(_lock_out_writers, opened)
        elif opened:
            wanted = {one.txn: one.target.lock(LockType.SHARED_READ) for one in opened}
            granted = site.metastore.locks.try_acquire_all(wanted, site.user, site.host)
            refused = [one for one in opened if one.txn not in granted]
            states = site.metastore.transactions.states([one.txn for one in refused]) if refused else {}
            for one in refused:
                group.drop(one, _not_locked(one, states.get(one.txn)))
        reach(Step.LOCKED)
        return group.still(opened)

    def _view(self, locked: Sequence[Opened]) -> list[Viewed]:
        """Makes the view of each entry, once nothing half done is left there."""
        site, group = self.site, self.group
        own = {one.target.location: one.txn for one in locked}
        threads = self.options.threads
        scan = leftovers.LeftoverScan(site, [one.target for one in locked], own, threads)
        swept = group.each(lambda one: scan.clear(one.target), locked)
        if not swept:
            return []
        # transactions after the group's first one belong to no compaction here, and to no writer of rows that it may read
        look = Look(site, min(one.txn for one in swept), [one.target.table for one in swept])

        def view(one: Opened) -> Viewed:
            scope = scope_of(look, one.target, one.txn, one.entry.type)
            if site.goes_by_write_ids:
                site.metastore.write_ids.hold(one.txn, scope.view.write_ids)
            leftovers.refuse_beside_unfinished(site, one.target, scope.view)
            claims_of(site).must_be_free(one.target.table, one.target.location, scope.view.listing)
            return one.viewed(scope)

        return group.advance_together(view, swept, threads)

    def _planned_or_ended(self, one: Viewed) -> Planned | None:
        sufficient = enough(one.scope.view.directory, one.entry.type)
        if isinstance(sufficient, NothingToDo):
            self.group.done(one, _nothing_to_write(one, sufficient))
            return None
        return one.planned(self._plan(one, one.entry.type))

    def _plan(self, one: Viewed, kind: CompactionType) -> Plan:
        request = PlanRequest(
            target=one.target,
            kind=kind,
            txn=one.txn,
            file_format=one.file_format,
            token=stage.token(),
            buckets=one.entry.buckets or None,
            order_by=one.entry.order_by,
            small_stripe_bytes=self.options.small_stripe_bytes,
            full_verify=self.options.full_verify,
        )
        return plan_scope(self.site, request, one.scope)

    def _planned_as_major(self, one: MustBeMajor) -> Planned:
        self.site.storage.remove(one.plan.staging, durable=False)
        plan = self._plan(one, CompactionType.MAJOR)
        if plan.shape is not Shape.MAJOR:
            raise Refused(
                f"{one.entry.entity}: {one.reason}, and {plan.left.because}; raise the bound, so that it can be a major"
            )
        return one.planned(plan, note=f"minor became major: {one.reason}")

    def _leave_large(self, planned: Sequence[Planned]) -> tuple[list[Planned], list[int]]:
        """Puts back what is too large to go with others, before any of it is recorded or staged.

        Returns:
            the entries that go on, and the ids of those that were put back.
        """
        large = [one for one in planned if one.plan.input_bytes > TOGETHER_BYTES]
        if len(planned) == 1 or not large:
            return list(planned), []

        def leave(one: Planned) -> None:
            put_back(one)
            self.group.release(one)

        self.group.each(leave, large)
        return self.group.still(planned), [one.entry.id for one in large]

    def _record(self, planned: Sequence[Planned]) -> list[Planned]:
        """Records each plan, after planning and before anything is staged (PROTOCOL 3.2)."""
        job = self.runner.application
        works = [work_of(one, one.plan.highest_write_id, component=True, job=job) for one in planned]
        if not works:
            return []
        lost = self.site.metastore.claims.record_all(works)
        for one in planned:
            if one.entry.id in lost:
                self.group.drop(one, lost[one.entry.id])
        reach(Step.RECORDED)
        return self.group.still(planned)


def _new_transactions(entries: Iterable[Admitted]) -> list[NewTransaction]:
    return [
        NewTransaction(
            user=one.run_as,
            host=one.site.host,
            type=TxnType.REBALANCE_COMPACTION if one.rebalances else TxnType.COMPACTION,
            agent=one.worker_id,
        )
        for one in entries
    ]


def _lock_out_writers(one: Opened) -> None:
    site, target = one.site, one.target
    request = target.lock(LockType.EXCL_WRITE)
    if site.metastore.locks.try_acquire(one.txn, [request], site.user, site.host) is None:
        raise LockNotGranted(f"{target.entity}: somebody writes to it; the next pass tries again")


def _not_locked(one: Opened, state: str | None) -> CompactorError:
    entity = one.target.entity
    if state != txn_states.OPEN:
        return LostClaim(f"{entity}: transaction {one.txn} of the compaction is no longer open")
    return LockNotGranted(f"{entity}: a statement holds or waits for it exclusively; the next pass tries again")


def _nothing_to_write(one: Viewed, nothing: NothingToDo) -> Outcome:
    """Ends an entry with too little to merge: the cleaner gets it if there is something to remove, else it is refused."""
    if not nothing.obsolete:
        raise Refused(nothing.because)
    directory = one.scope.view.directory
    numbers = [d.delta.max_write_id for d in directory.compactable()]
    if directory.base is not None:
        numbers.append(directory.base.base.write_id)
    highest = max(numbers, default=one.scope.view.write_ids.high_watermark)
    record_alone(one.site, work_of(one, highest, component=False))
    with committing(one):
        pass
    return Outcome(entry=one.entry, result=Result.CLEAN_ONLY, message=nothing.because)
