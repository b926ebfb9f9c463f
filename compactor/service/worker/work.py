"""The worker: claimed entries from ``i -> w`` to ``w -> r`` (PROTOCOL 3 to 6).

claim -> open a compaction transaction, shared lock, heartbeat -> list, repair, re-decide, plan -> record -> stage ->
verify -> name and commit in one database transaction.

Entries take all steps but the last together: many are so small that asking the database for each would cost more than
rewriting them. Each may fail, and then falls out of its group alone (ADR 11, 16).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from compactor.compaction.decision import NothingToDo, enough
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.errors import CompactorError, LockNotGranted, LostClaim, NotSupported, Refused
from compactor.ids import WriteId
from compactor.locking.lock_types import LockType
from compactor.metastore.queue.claims import Work
from compactor.metastore.transactions.rows import TxnType
from compactor.metastore.transactions.values import NewTransaction
from compactor.rewrite.plan.chunks import finished
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.slices import condensed
from compactor.rewrite.plan.unit import SHAPES, Shape, UnitResult
from compactor.rewrite.publish import stage
from compactor.rewrite.run.runner import Runner
from compactor.service import leftovers
from compactor.service.exclusive import renames
from compactor.service.heartbeat import Heartbeat
from compactor.service.mode import Mode, may
from compactor.service.site import VERSION, Look, Site, Target, Targets, must_be_unsorted
from compactor.service.worker.bounds import Budget, bound_of
from compactor.service.worker.claim import Hold
from compactor.service.worker.commit import committing, name_all
from compactor.service.worker.file_formats import file_format_of
from compactor.service.worker.group import Group, Watch
from compactor.service.worker.outcome import Outcome, Result
from compactor.service.worker.planning import PlanRequest, plan_scope, scope_of
from compactor.service.worker.rebalance_view import must_be_possible
from compactor.steps import Step, reach

__all__ = ["Options", "is_ours", "work", "work_together"]

TOGETHER_BYTES = 4 * 1024 * 1024  #: of input that an entry may have to go with others: none waits long for another


def _goes_on() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a pass works. ``small_stripe_bytes`` None leaves the unit's own bound; ``stops`` says that whoever runs it
    wants it to end soon."""

    full_verify: bool = False
    small_stripe_bytes: int | None = None
    stops: Callable[[], bool] = _goes_on


def work(site: Site, entry_id: int, runner: Runner, options: Options) -> Outcome | None:
    """Claims one entry and brings it as far as it goes. None when the entry isn't there to be claimed any more, or the
    mode leaves it to Hive's workers.

    Every error of the tree ends in the row's fate and in the outcome; nothing is left behind in storage.
    """
    outcomes: list[Outcome] = []
    work_together(site, [entry_id], runner, options, outcomes.append)
    return outcomes[0] if outcomes else None


def work_together(
    site: Site, ids: Sequence[int], runner: Runner, options: Options, told: Callable[[Outcome], object]
) -> tuple[int, ...]:
    """Claims entries and brings each as far as it goes; ``told`` hears of each as soon as it is done.

    Returns:
        those that were put back, since they are too large to go with others: work on each alone.
    """
    waiting = site.metastore.entries.queue(states=(State.INITIATED,), ids=ids)
    modes = {table: is_ours(site, table) for table in {_table(entry.entity) for entry in waiting}}
    ours = [entry for entry in waiting if modes[_table(entry.entity)]]
    alone = [entry for entry in ours if entry.type is CompactionType.REBALANCE]
    together = [entry for entry in ours if entry.type is not CompactionType.REBALANCE]
    left: list[int] = []
    for entries in (together, *([entry] for entry in alone)):
        if entries:
            group = Group(_claimed(site, [entry.id for entry in entries]), told)
            left += _Course(site=site, group=group, runner=runner, options=options).run()
    return tuple(left)


def is_ours(site: Site, entity: Entity) -> bool:
    """Whether the mode of the metastore, the database and the table lets our workers compact ``entity``."""
    return may(site.settings_of(entity), Mode.COMPACT)


def _table(entity: Entity) -> Entity:
    return Entity(database=entity.database, table=entity.table)


def _claimed(site: Site, ids: Iterable[int]) -> list[Hold]:
    """Each by a worker id of its own, by which it is known while it has recorded no transaction."""
    workers = {number: site.identity("worker") for number in ids}
    entries = site.metastore.claims.claim_all(workers, VERSION)
    reach(Step.CLAIMED)
    now = time.monotonic()
    return [Hold(site=site, entry=entry, worker_id=workers[entry.id], started=now) for entry in entries]


@dataclass(slots=True, kw_only=True)
class _Course:
    """The way of one group."""

    site: Site
    group: Group
    runner: Runner
    options: Options

    def run(self) -> list[int]:
        """See ``work_together``."""
        left: list[int] = []
        group = self.group
        try:
            self._begin()
            if group.live:
                period = self.site.settings.milliseconds("hive.txn.timeout") // 2
                txns = [hold.transaction for hold in group.live]
                with Heartbeat(self.site.metastore.transactions, txns, period) as heart:
                    left = self._go_on(heart)
        except BaseException as error:
            group.fall(error)
            if not isinstance(error, Exception):
                raise
        if group.broken is not None:
            raise group.broken
        return left

    def _begin(self) -> None:
        """Says no to what cannot be done, and opens the others' transactions."""
        site, group = self.site, self.group
        targets = Targets(site, [hold.entry.entity for hold in group.live])

        def find(hold: Hold) -> None:
            target = hold.target = targets.target(hold.entry.entity, hold.entry.properties)
            _may_compact(target, hold.entry)
            hold.file_format = file_format_of(site, target)
            _must_be_undone_whole(site, target)
            _must_be_named_in_one_step(site, target, hold.entry)

        group.each(find)
        if not group.live:
            return
        for hold, txn in zip(group.live, site.metastore.transactions.open_all(_openings(group.live)), strict=True):
            hold.txn = txn
        reach(Step.TXN_OPENED)

    def _go_on(self, heart: Heartbeat) -> list[int]:
        site, group = self.site, self.group
        for hold in [hold for hold in group.live if not renames(site, hold.the_target)]:
            # may need the table alone, which our own lock would prevent
            group.each(lambda hold: leftovers.clear_leftovers(site, hold.the_target), [hold])
        self._lock()
        self._look()
        group.each(self._plan_or_end)
        left = self._leave_large()
        self._record()
        self._stage(group.live, heart)
        name_all(site, group, heart, lambda holds: self._again_as_majors(holds, heart))
        return left

    def _lock(self) -> None:
        """Shared with everybody who doesn't want the table alone; a rebalance keeps writers of old rows out as well.

        Who doesn't get it at once falls out; nobody queues behind a compaction that waits.
        """
        site, group = self.site, self.group
        locks = site.metastore.locks
        if any(hold.rebalances for hold in group.live):
            group.each(_lock_out_writers)
        elif group.live:
            wanted = {hold.transaction: hold.the_target.lock(LockType.SHARED_READ) for hold in group.live}
            granted = locks.try_acquire_all(wanted, site.user, site.host)
            refused = [hold for hold in group.live if hold.txn not in granted]
            states = site.metastore.transactions.states([h.transaction for h in refused]) if refused else {}
            for hold in refused:
                group.out(hold, _not_locked(hold, states.get(hold.transaction)))
        reach(Step.LOCKED)

    def _look(self) -> None:
        """What each may read, after nothing half done is left there."""
        site, group = self.site, self.group
        scan = leftovers.LeftoverScan(site, [hold.the_target for hold in group.live])
        group.each(lambda hold: scan.clear(hold.the_target))
        if not group.live:
            return
        # transactions after the group's first one are of no compaction here, and nobody's whose rows it may read
        look = Look(site, min(hold.transaction for hold in group.live))

        def see(hold: Hold) -> None:
            target, txn = hold.the_target, hold.transaction
            hold.scope = scope_of(look, target, txn, hold.entry.type)
            if site.settings.boolean("hive.txn.use.minhistorywriteid"):
                site.metastore.write_ids.hold(txn, hold.the_view.write_ids)
            leftovers.refuse_beside_unfinished(site, target, hold.the_view)

        group.each(see)

    def _plan_or_end(self, hold: Hold) -> None:
        sufficient = enough(hold.the_view.directory, hold.entry.type)
        if isinstance(sufficient, NothingToDo):
            self.group.done(hold, _nothing_to_write(hold, sufficient))
        else:
            hold.plan = self._planned(hold, hold.entry.type)

    def _planned(self, hold: Hold, kind: CompactionType) -> Plan:
        request = PlanRequest(
            target=hold.the_target,
            kind=kind,
            txn=hold.transaction,
            file_format=hold.file_format,
            buckets=hold.entry.buckets or None,
            order_by=hold.entry.order_by,
            small_stripe_bytes=self.options.small_stripe_bytes,
            full_verify=self.options.full_verify,
        )
        assert hold.scope is not None
        return plan_scope(self.site, request, hold.scope)

    def _leave_large(self) -> list[int]:
        """Puts back what is too large to go with others. Nothing is recorded or staged of it yet."""
        group = self.group
        large = [hold for hold in group.live if hold.the_plan.input_bytes > TOGETHER_BYTES]
        if len(group.live) == 1 or not large:
            return []

        def leave(hold: Hold) -> None:
            hold.put_back()
            group.live.remove(hold)

        group.each(leave, large)
        return [hold.entry.id for hold in large]

    def _record(self) -> None:
        """After planning and before anything is staged (PROTOCOL 3.2)."""
        job = self.runner.application
        works = [_work_of(hold, hold.the_plan.highest_write_id, component=True, job=job) for hold in self.group.live]
        if not works:
            return
        lost = self.site.metastore.claims.record_all(works)
        for hold in [hold for hold in self.group.live if hold.entry.id in lost]:
            self.group.out(hold, lost[hold.entry.id])
        reach(Step.RECORDED)

    def _stage(self, holds: Sequence[Hold], heart: Heartbeat) -> None:
        """Runs the units and proves their output; on return all of it is durable and nothing is named."""
        site, group = self.site, self.group
        group.each(lambda hold: stage.prepare(site.storage, hold.the_plan), holds)
        prepared = [hold for hold in holds if hold in group.live]
        watch = Watch(site, heart, prepared)
        self._merge_slices([hold for hold in prepared if hold.the_plan.slices], watch)
        prepared = [hold for hold in prepared if hold in group.live]
        answers = self.runner.run([watch.job(hold, self._budget(hold)) for hold in prepared])
        for hold, answer in zip(prepared, answers, strict=True):
            if isinstance(answer, CompactorError):
                group.out(hold, answer)
                continue

            def accept(hold: Hold, results: list[UnitResult] = answer) -> None:
                recorded = hold.the_plan.highest_write_id
                planned, results = finished(hold.the_plan, results)
                hold.plan = planned
                if planned.highest_write_id != recorded:
                    _record_alone(_work_of(hold, planned.highest_write_id, component=False), site)
                staged = hold.staged = stage.accept(site.storage, planned, results)
                stage.check_staged(site.storage, planned, staged)
                stage.write_manifest(site.storage, planned, staged, entry_id=hold.entry.id)

            group.each(accept, [hold])
        staged = [hold for hold in prepared if hold in group.live]
        failed = stage.make_durable(site.storage, [hold.the_plan for hold in staged])
        for hold in staged:
            if hold.the_plan.staging in failed:
                group.out(hold, failed[hold.the_plan.staging])

    def _merge_slices(self, holds: Sequence[Hold], watch: Watch) -> None:
        """What has very many deltas reads fewer from here on; see ``rewrite.plan.slices``."""
        units = [[unit for of_slice in hold.the_plan.slices for unit in of_slice.units] for hold in holds]
        jobs = [watch.job(hold, self._budget(hold), of_hold) for hold, of_hold in zip(holds, units, strict=True)]
        for hold, answer in zip(holds, self.runner.run(jobs) if jobs else [], strict=True):
            if isinstance(answer, CompactorError):
                self.group.out(hold, answer)
                continue

            def read_on(hold: Hold, results: list[UnitResult] = answer) -> None:
                hold.plan = condensed(hold.the_plan, results)

            self.group.each(read_on, [hold])

    def _budget(self, hold: Hold) -> Budget:
        bound = bound_of(hold.the_target.settings)
        return Budget(bound=bound, elapsed_s=lambda: time.monotonic() - hold.started, stops=self.options.stops)

    def _again_as_majors(self, holds: Sequence[Hold], heart: Heartbeat) -> None:
        def as_major(hold: Hold) -> None:
            planned = hold.plan = self._planned(hold, CompactionType.MAJOR)
            if planned.shape is not Shape.MAJOR:
                raise Refused(
                    f"{hold.entry.entity}: {hold.note}, and {planned.left.because}; raise the bound, so that it can be a "
                    "major"
                )
            hold.note = f"minor became major: {hold.note}"

        self.group.each(as_major, holds)
        self._stage([hold for hold in holds if hold in self.group.live], heart)


def _openings(holds: Iterable[Hold]) -> list[NewTransaction]:
    return [
        NewTransaction(
            user=hold.run_as,
            host=hold.site.host,
            type=TxnType.REBALANCE_COMPACTION if hold.rebalances else TxnType.COMPACTION,
            agent=hold.worker_id,
        )
        for hold in holds
    ]


def _lock_out_writers(hold: Hold) -> None:
    site, target = hold.site, hold.the_target
    request = target.lock(LockType.EXCL_WRITE)
    if site.metastore.locks.try_acquire(hold.transaction, [request], site.user, site.host) is None:
        raise LockNotGranted(f"{target.entity}: somebody writes to it; the next pass tries again")


def _not_locked(hold: Hold, state: str | None) -> CompactorError:
    entity = hold.the_target.entity
    if state != "o":
        return LostClaim(f"{entity}: transaction {hold.txn} of the compaction is not open any more")
    return LockNotGranted(f"{entity}: a statement holds or waits for it exclusively; the next pass tries again")


def _may_compact(target: Target, entry: Entry) -> None:
    """Refuses by name what this release doesn't compact."""
    table = target.table
    if not table.is_transactional:
        raise Refused(f"{entry.entity}: the table is not transactional; only ACID tables are compacted")
    must_be_unsorted(entry.entity, table, target.partition)
    if entry.type not in SHAPES:
        raise NotSupported(
            f"{entry.entity}: a {entry.type.label.lower()} compaction is not done by a worker; ask for minor or major"
        )
    if entry.type is CompactionType.REBALANCE:
        must_be_possible(table, buckets=entry.buckets or None, order_by=entry.order_by)


def _must_be_undone_whole(site: Site, target: Target) -> None:
    """Hive 3.1 shows whatever has a final name: half of a directory that a dead worker left would be its rows."""
    if not site.metastore.dialect.layout.has_visibility and not renames(site, target):
        raise NotSupported(
            f"{target.entity}: lies in a store without directory rename ({target.location}), and Hive 3.1 would show what "
            "is named half; leave it to Hive"
        )


def _must_be_named_in_one_step(site: Site, target: Target, entry: Entry) -> None:
    """What ``compactor.readers = strict`` rules out whatever it would make; of a minor it is known once it is staged."""
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


def _nothing_to_write(hold: Hold, nothing: NothingToDo) -> Outcome:
    """Too little to merge: the cleaner gets the entry when there is something to remove, else it is refused."""
    if not nothing.obsolete:
        raise Refused(nothing.because)
    directory = hold.the_view.directory
    numbers = [d.delta.max_write_id for d in directory.compactable()]
    if directory.base is not None:
        numbers.append(directory.base.base.write_id)
    highest = max(numbers, default=hold.the_view.write_ids.high_watermark)
    _record_alone(_work_of(hold, highest, component=False), hold.site)
    with committing(hold):
        pass
    return Outcome(entry=hold.entry, result=Result.CLEAN_ONLY, message=nothing.because)


def _record_alone(work: Work, site: Site) -> None:
    for error in site.metastore.claims.record_all([work]).values():
        raise error
    reach(Step.RECORDED)


def _work_of(hold: Hold, highest: WriteId, *, component: bool, job: str | None = None) -> Work:
    return Work(
        entry=hold.entry,
        worker_id=hold.worker_id,
        txn=hold.transaction,
        run_as=hold.run_as,
        highest_write_id=highest,
        component=component,
        job=job,
    )
