"""Runs a group of claimed entries through a compaction, from ``i -> w`` to ``w -> r``.

See PROTOCOL 3 to 6.

Open a compaction transaction, shared lock, heartbeat -> list, repair, re-decide, plan -> record -> stage -> verify -> name
and commit in one database transaction.

Many entries are so small that a database query for each would cost more than rewriting it, so a group shares its queries.
An entry that fails drops out of its group alone (ADR 11, 16).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from compactor.acid import txn_states
from compactor.base.errors import CompactorError, LockNotGranted, LostClaim, NotSupported, Refused
from compactor.base.steps import Step, reach
from compactor.compaction.decision import NothingToDo, check_enough
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType
from compactor.locking.lock_types import LockType
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import SHAPES, Shape
from compactor.rewrite.publish import stage
from compactor.rewrite.run.runner import Runner
from compactor.site import leftovers
from compactor.site.exclusive import renames
from compactor.site.heartbeat import Heartbeat, heartbeat_period_ms
from compactor.site.restored_database import must_not_be_older
from compactor.site.site import Site, Target, Targets, claims_of, must_be_compactable, must_lie_in_no_other
from compactor.site.view import Look
from compactor.worker.claimed_entries import ClaimedEntries
from compactor.worker.commit import committing
from compactor.worker.compaction_phases import (
    Admitted,
    Claimed,
    Located,
    MustBeMajor,
    Opened,
    Planned,
    StagedEntry,
    Viewed,
)
from compactor.worker.ending import Outcome, Result, put_back
from compactor.worker.file_formats import file_format_of
from compactor.worker.planning import PlanRequest, plan_scope, scope_of
from compactor.worker.publication import publish
from compactor.worker.rebalance_view import must_be_possible
from compactor.worker.staging import Stager, record_alone, work_of
from compactor.worker.under_way import Options

TOGETHER_BYTES = 4 * 1024 * 1024  #: the largest input of an entry in a group, so that no entry waits long for another


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionGroup:
    """Runs one group."""

    site: Site
    group: ClaimedEntries
    runner: Runner
    options: Options

    def run(self, claimed: Sequence[Claimed]) -> list[int]:
        """Takes each claimed entry as far as possible.

        Returns:
            the ids of the entries that were put back because they are too large for a group.
        """
        put_back_ids: list[int] = []
        try:
            opened = self._open_transactions(claimed)
            if opened:
                period = heartbeat_period_ms(self.site.settings)
                with Heartbeat(self.site.metastore.transactions, [member.txn for member in opened], period) as heart:
                    put_back_ids = self._run_opened(opened, heart)
        except BaseException as error:
            self.group.fail_all(error)
            if not isinstance(error, Exception):
                raise
        if self.group.broken is not None:
            raise self.group.broken
        return put_back_ids

    def _open_transactions(self, claimed: Sequence[Claimed]) -> list[Opened]:
        """Drops entries that cannot be compacted, and opens a transaction for each of the others."""
        admitted = self.group.advance(admit, self._locate(claimed))
        if not admitted:
            return []
        txns = self.site.metastore.transactions.open_all(_new_transactions(admitted))
        opened = [member.opened(txn) for member, txn in zip(admitted, txns, strict=True)]
        self.group.enter(opened)
        reach(Step.TXN_OPENED)
        return opened

    def _locate(self, claimed: Sequence[Claimed]) -> list[Located]:
        targets = Targets(self.site, [member.entry.entity for member in claimed])
        return self.group.advance(
            lambda member: member.located(targets.target(member.entry.entity, member.entry.properties)), claimed
        )

    def _run_opened(self, opened: Sequence[Opened], heart: Heartbeat) -> list[int]:
        swept = self._sweep_before_locks(opened)
        viewed = self._view(self._lock(swept))
        planned = self.group.advance(self._plan_or_end, viewed)
        small, put_back_ids = self._put_back_large(planned)
        stager = Stager(site=self.site, group=self.group, runner=self.runner, options=self.options, heart=heart)
        self._publish(stager, stager.stage(self._record(small)), heart)
        return put_back_ids

    def _publish(self, stager: Stager, staged: Sequence[StagedEntry], heart: Heartbeat) -> None:
        must_not_be_older(self.site, remembering=False)  # a restored database may have allocated our numbers to others
        threads = self.options.threads
        majors = publish(self.group, staged, heart, threads)
        if majors:
            planned = self.group.advance(self._plan_as_major, majors)
            publish(self.group, stager.stage(planned), heart, threads)  # majors are never turned into majors again

    def _sweep_before_locks(self, opened: Sequence[Opened]) -> list[Opened]:
        """Sweeps stores without rename before locking, since the sweep may need an exclusive lock."""
        without_rename = [member for member in opened if not renames(self.site, member.target)]
        self.group.each(lambda member: leftovers.clear_leftovers(self.site, member.target), without_rename)
        return self.group.remaining(opened)

    def _lock(self, opened: Sequence[Opened]) -> list[Opened]:
        """Takes a shared lock for each entry. A rebalance takes a lock that also excludes updates and deletes.

        An entry that does not get its lock at once drops out, so that nobody queues behind a waiting compaction.
        """
        site, group = self.site, self.group
        if any(member.rebalances for member in opened):
            group.each(_lock_out_writers, opened)
        elif opened:
            requests = {member.txn: member.target.lock(LockType.SHARED_READ) for member in opened}
            locked = site.metastore.locks.try_acquire_all(requests, site.user, site.host)
            refused = [member for member in opened if member.txn not in locked]
            states = site.metastore.transactions.states([member.txn for member in refused]) if refused else {}
            for member in refused:
                group.fail(member, _error_without_lock(member, states.get(member.txn)))
        reach(Step.LOCKED)
        return group.remaining(opened)

    def _view(self, locked: Sequence[Opened]) -> list[Viewed]:
        """Reads the view of each entry after removing leftovers of unfinished work.

        The snapshot is read before the listing, so that every write that it shows as committed is listed. One listing
        serves both steps, unless there are leftovers.
        """
        site, group = self.site, self.group
        if not locked:
            return []
        own = {member.target.location: member.txn for member in locked}
        threads = self.options.threads
        # Transactions after the group's first one are not compactions of its tables, nor did they write rows it may read.
        look = Look(site, min(member.txn for member in locked), [member.target.table for member in locked])
        scan = leftovers.LeftoverScan(site, [member.target for member in locked], own, threads, keeps_listings=True)
        swept = group.each(lambda member: scan.clear(member.target), locked)

        def view(member: Opened) -> Viewed:
            scope = scope_of(look, member.target, member.txn, member.entry.type, scan.listing(member.target))
            if site.goes_by_write_ids:
                site.metastore.write_ids.hold(member.txn, scope.view.write_ids)
            leftovers.refuse_beside_unfinished(site, member.target, scope.view)
            claims_of(site).must_be_free(member.target.table, member.target.location, scope.view.listing)
            return member.viewed(scope)

        return group.advance(view, swept, threads)

    def _plan_or_end(self, member: Viewed) -> Planned | None:
        sufficient = check_enough(
            member.scope.view.directory, member.entry.type, is_insert_only=member.target.table.is_insert_only
        )
        if isinstance(sufficient, NothingToDo):
            self.group.finish(member, _end_without_output(member, sufficient))
            return None
        return member.planned(self._plan(member, member.entry.type))

    def _plan(self, member: Viewed, kind: CompactionType) -> Plan:
        request = PlanRequest(
            target=member.target,
            kind=kind,
            txn=member.txn,
            file_format=member.file_format,
            token=stage.token(),
            buckets=member.entry.buckets or None,
            order_by=member.entry.order_by,
            small_stripe_bytes=self.options.small_stripe_bytes,
            full_verify=self.options.full_verify,
        )
        return plan_scope(self.site, request, member.scope)

    def _plan_as_major(self, member: MustBeMajor) -> Planned:
        self.site.storage.remove(member.plan.staging, durable=False)
        plan = self._plan(member, CompactionType.MAJOR)
        if plan.shape is not Shape.MAJOR:
            raise Refused(
                f"{member.entry.entity}: {member.reason}, and {plan.left.because}; raise the bound to allow a major"
            )
        return member.planned(plan, note=f"minor became major: {member.reason}")

    def _put_back_large(self, planned: Sequence[Planned]) -> tuple[list[Planned], list[int]]:
        """Puts back entries that are too large for a group, before any of them is recorded or staged.

        Returns:
            the entries that go on, and the ids of the entries that were put back.
        """
        too_large = [member for member in planned if member.plan.input_bytes > TOGETHER_BYTES]
        if len(planned) == 1 or not too_large:
            return list(planned), []

        def put_back_member(member: Planned) -> None:
            put_back(member)
            self.group.leave(member)

        self.group.each(put_back_member, too_large)
        return self.group.remaining(planned), [member.entry.id for member in too_large]

    def _record(self, planned: Sequence[Planned]) -> list[Planned]:
        """Records each plan, after planning and before anything is staged (PROTOCOL 3.2)."""
        job = self.runner.application
        works = [work_of(member, member.plan.highest_write_id, component=True, job=job) for member in planned]
        if not works:
            return []
        lost = self.site.metastore.claims.record_all(works)
        recorded = self.group.fail_each(lambda member: lost.get(member.entry.id), planned)
        reach(Step.RECORDED)
        return recorded


def _new_transactions(entries: Iterable[Admitted]) -> list[NewTransaction]:
    return [
        NewTransaction(
            user=member.run_as,
            host=member.site.host,
            type=TxnType.REBALANCE_COMPACTION if member.rebalances else TxnType.COMPACTION,
            agent=member.worker_id,
        )
        for member in entries
    ]


def _lock_out_writers(member: Opened) -> None:
    site, target = member.site, member.target
    request = target.lock(LockType.EXCL_WRITE)
    if site.metastore.locks.try_acquire(member.txn, [request], site.user, site.host) is None:
        raise LockNotGranted(f"{target.entity}: somebody writes to it; the next pass tries again")


def _error_without_lock(member: Opened, state: str | None) -> CompactorError:
    entity = member.target.entity
    if state != txn_states.OPEN:
        return LostClaim(f"{entity}: transaction {member.txn} of the compaction is no longer open")
    return LockNotGranted(f"{entity}: a statement holds or waits for it exclusively; the next pass tries again")


def _end_without_output(member: Viewed, nothing: NothingToDo) -> Outcome:
    """Ends an entry with too little to merge: for the cleaner if something is obsolete, else refused."""
    if not nothing.obsolete:
        raise Refused(nothing.because)
    directory = member.scope.view.directory
    numbers = [d.delta.max_write_id for d in directory.compactable()]
    if directory.base is not None:
        numbers.append(directory.base.base.write_id)
    highest = max(numbers, default=member.scope.view.write_ids.high_watermark)
    record_alone(member.site, work_of(member, highest, component=False))
    with committing(member):
        pass
    return Outcome(entry=member.entry, result=Result.CLEAN_ONLY, message=nothing.because)


def admit(member: Located) -> Admitted:
    """Returns the entry if it can be compacted.

    Raises:
        Refused: the table or the request does not allow it.
        NotSupported: this release does not support it.
    """
    site, target, entry = member.site, member.target, member.entry
    _must_be_compactable(site, target, entry)
    file_format = file_format_of(site, target)
    _must_be_undone_whole(site, target)
    _must_be_named_in_one_step(site, target, entry)
    return member.admitted(file_format)


def _must_be_compactable(site: Site, target: Target, entry: Entry) -> None:
    table = target.table
    must_be_compactable(table, target.partition)
    must_lie_in_no_other(site, target)
    if entry.type not in SHAPES:
        raise NotSupported(
            f"{entry.entity}: a {entry.type.label.lower()} compaction is not done by a worker; ask for minor or major"
        )
    if entry.type is CompactionType.REBALANCE:
        must_be_possible(table, buckets=entry.buckets or None, order_by=entry.order_by)


def _must_be_undone_whole(site: Site, target: Target) -> None:
    """Refuses stores without directory rename under Hive 3.1.

    Hive 3.1 shows every directory with a final name. It would return the rows of half a directory that a dead worker left.
    """
    if not site.metastore.dialect.layout.has_visibility and not renames(site, target):
        raise NotSupported(
            f"{target.entity}: lies in a store without directory rename ({target.location}), and Hive 3.1 would show what "
            "is named half; leave it to Hive"
        )


def _must_be_named_in_one_step(site: Site, target: Target, entry: Entry) -> None:
    """Refuses entries that ``compactor.readers = strict`` excludes; a minor is checked once it is staged."""
    if target.settings.text("compactor.readers") != "strict":
        return
    if entry.type is CompactionType.REBALANCE:
        raise Refused(
            f"{entry.entity}: compactor.readers is strict, and a rebalance whose worker died would show other ROW__IDs to "
            "readers without visibility; ask for a major, or set any for the table while nobody writes to it"
        )
    if not renames(site, target):
        raise Refused(
            f"{entry.entity}: compactor.readers is strict, and a store without directory rename ({target.location}) shows "
            "files one by one; set any for the table"
        )
