"""The worker: one claimed entry from ``i -> w`` to ``w -> r`` (PROTOCOL 3 to 6).

claim -> open a compaction transaction, shared lock, heartbeat -> list, repair, re-decide, plan -> record -> stage ->
verify -> name and commit in one database transaction.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from compactor.compaction.decision import NothingToDo, enough
from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.errors import (
    BadFile,
    CommitUnknown,
    CompactorError,
    LockNotGranted,
    LostClaim,
    NotFound,
    NotSupported,
    Refused,
    StorageError,
)
from compactor.ids import TxnId, WriteId
from compactor.locking.kinds import LockType
from compactor.metastore.transactions import TxnType
from compactor.rewrite import publish, stage
from compactor.rewrite.chunks import bounded, finished, must_hold
from compactor.rewrite.division import split_by
from compactor.rewrite.file_format import FileFormat
from compactor.rewrite.plan import NOTHING_LEFT, Left, Plan, plan
from compactor.rewrite.rebalance import rebalanced
from compactor.rewrite.runner import Job, Runner
from compactor.rewrite.stage import Staged
from compactor.rewrite.unit import Figures, Shape
from compactor.service import repair
from compactor.service.bounded import Pace, bound_of, request_anew
from compactor.service.exclusive import renames
from compactor.service.file_formats import file_format_of
from compactor.service.heartbeat import Heartbeat
from compactor.service.mode import Mode, may
from compactor.service.rebalancing import must_be_possible, own_view
from compactor.service.site import VERSION, Site, Target, View, compactor_view
from compactor.steps import Step, reach

log = logging.getLogger(__name__)
_SHAPES = {
    CompactionType.MAJOR: Shape.MAJOR,
    CompactionType.MINOR: Shape.MINOR,
    CompactionType.REBALANCE: Shape.MAJOR,  # of which ``rewrite.rebalance`` makes its own
}
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0  #: between two tries for the exclusive lock


class Fate(enum.Enum):
    """How a worker's hold on an entry ended."""

    COMPACTED = "compacted"
    CLEAN_ONLY = "nothing to merge, obsolete directories are left to the cleaner"
    REFUSED = "refused"
    FAILED = "failed"
    WAITING = "put back into the queue"
    LOST = "somebody else's by now"
    ABORTED = "aborted by a person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one entry. ``message`` says why; ``seconds`` from claim to commit."""

    entry: Entry
    fate: Fate
    message: str = ""
    figures: Figures = field(default_factory=Figures)
    seconds: float = 0.0
    output: tuple[str, ...] = ()
    directories_in: int = 0
    txn: TxnId | None = None
    worker_id: str | None = None
    left: Left = NOTHING_LEFT  #: for a bound of the request


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
    try:
        waiting = site.metastore.compactions.entry(entry_id)
    except NotFound:
        return None
    if not is_ours(site, waiting.entity):
        return None
    worker_id = site.identity("worker")
    entry = site.metastore.compactions.claim(
        worker_id,
        VERSION,
        pool_timeout_ms=site.settings.milliseconds("hive.compactor.worker.pool.timeout"),
        ids=[entry_id],
    )
    if entry is None:
        return None
    reach(Step.CLAIMED)
    started = time.monotonic()
    hold = _Hold(site=site, entry=entry, worker_id=worker_id)
    try:
        outcome = _compact(hold, runner, options)
    except LostClaim as error:
        outcome = _lost(hold, error)
    except LockNotGranted as error:
        outcome = _let_go(
            hold, Fate.WAITING, error, lambda why: site.metastore.compactions.requeue(entry.id, worker_id)
        )
    except CommitUnknown:
        raise  # nothing may be touched before TXNS can be read again; repair does it then
    except CompactorError as error:
        if isinstance(error, StorageError | BadFile) and _is_elsewhere(hold):
            gone = LostClaim(f"{entry.entity} was dropped, renamed or moved while it was compacted: {error}")
            return replace(_lost(hold, gone), seconds=time.monotonic() - started, txn=hold.txn, worker_id=worker_id)
        fate, state = (Fate.REFUSED, State.REFUSED) if isinstance(error, Refused) else (Fate.FAILED, State.FAILED)
        outcome = _let_go(hold, fate, error, lambda why: site.metastore.compactions.finish(entry, state, why))
    except BaseException:
        hold.abandon()
        site.metastore.compactions.requeue(entry.id, worker_id)
        raise
    seconds = time.monotonic() - started
    log.log(
        logging.WARNING if outcome.fate is Fate.FAILED else logging.INFO,
        "%s entry %d: %s%s",
        entry.entity,
        entry.id,
        outcome.fate.value,
        f": {outcome.message}" if outcome.message else f" in {seconds:.2f} s",
    )
    return replace(outcome, seconds=seconds, txn=hold.txn, worker_id=worker_id)


def is_ours(site: Site, entity: Entity) -> bool:
    """Whether the mode of the metastore, the database and the table lets our workers compact ``entity``."""
    return may(site.settings_of(entity), Mode.COMPACT)


def _let_go(hold: _Hold, fate: Fate, error: CompactorError, then: Callable[[str], object]) -> Outcome:
    """Leaves nothing behind, then settles the row, if it is still this worker's: another one may have it by now.

    Where storage doesn't let us take our leavings away, the row stays as it is; repair tries again (PROTOCOL 6).
    """
    try:
        hold.abandon()
        then(str(error))
    except LostClaim as lost:
        return Outcome(entry=hold.entry, fate=Fate.LOST, message=f"{error}; {lost}")
    except (StorageError, LockNotGranted) as left:
        message = f"{error}; what was staged or named cannot be taken away, the next pass tries again: {left}"
        return Outcome(entry=hold.entry, fate=Fate.FAILED, message=message)
    return Outcome(entry=hold.entry, fate=fate, message=str(error))


def _is_elsewhere(hold: _Hold) -> bool:
    """Whether what was read is not there any more under its name: what storage says then is no fault of the files."""
    read = hold.target
    if read is None:
        return False
    try:
        now = hold.site.target(hold.entry.entity, hold.entry.properties)
    except NotFound:
        return True
    partitions = [found.partition.id if found.partition else None for found in (now, read)]
    return (now.table.id, now.location, partitions[0]) != (read.table.id, read.location, partitions[1])


def _lost(hold: _Hold, error: LostClaim) -> Outcome:
    """Leaves nothing behind of what is not this worker's any more; a person who aborted it gets his row ended."""
    ended: list[bool] = []
    finish = hold.site.metastore.compactions.end_aborted
    outcome = _let_go(hold, Fate.LOST, error, lambda why: ended.append(finish(hold.entry.id, hold.worker_id)))
    return replace(outcome, fate=Fate.ABORTED) if any(ended) else outcome


@dataclass(slots=True, kw_only=True)
class _Hold:
    """What a worker has taken hold of so far, and how to let go of it without a trace."""

    site: Site
    entry: Entry
    worker_id: str
    txn: TxnId | None = None
    target: Target | None = None
    file_format: FileFormat | None = None  #: of an insert-only table
    is_alone: bool = False  #: holds the exclusive lock
    write_id: WriteId | None = None  #: a rebalance's own

    @property
    def rebalances(self) -> bool:
        return self.entry.type is CompactionType.REBALANCE

    def abandon(self) -> None:
        """Abort the transaction, hide what it named, remove what it staged; in this order (PROTOCOL 6)."""
        if self.txn is None:
            return
        self.site.metastore.transactions.abort(self.txn, "compaction transaction abort")
        if self.target is not None:
            repair.erase(self.site, self.target, self.txn)

    def transaction(self) -> TxnId:
        assert self.txn is not None
        return self.txn

    def run_as(self) -> str:
        """The request's user, else the table's owner, else ours."""
        return self.entry.run_as or self.the_target().table.owner or self.site.user

    def the_target(self) -> Target:
        assert self.target is not None
        return self.target


def _compact(hold: _Hold, runner: Runner, options: Options) -> Outcome:
    site, entry = hold.site, hold.entry
    target = hold.target = site.target(entry.entity, entry.properties)
    _may_compact(target, entry)
    hold.file_format = file_format_of(site, target)
    _must_be_undone_whole(site, target)
    kind = TxnType.REBALANCE_COMPACTION if hold.rebalances else TxnType.COMPACTION
    txn = hold.txn = site.metastore.transactions.open(hold.run_as(), site.host, type=kind, agent=hold.worker_id)[0]
    reach(Step.TXN_OPENED)
    period = site.settings.milliseconds("hive.txn.timeout") // 2
    with Heartbeat(site.metastore.transactions, txn, period) as heart:
        if not renames(site, target):
            repair.sweep(site, target)  # may need the table alone, which our own lock would prevent
        _lock(hold)
        reach(Step.LOCKED)
        repair.sweep(site, target)
        if hold.rebalances:
            view, hold.write_id = own_view(site, target, txn)
        else:
            view = compactor_view(site, target, txn)
        if site.settings.boolean("hive.txn.use.minhistorywriteid"):
            site.metastore.write_ids.hold(txn, view.write_ids)
        repair.no_strangers(site, target, view)
        sufficient = enough(view.directory, entry.type)
        if isinstance(sufficient, NothingToDo):
            return _nothing_to_write(hold, view, sufficient)
        return _rewrite(hold, view, heart, runner, options)


def _lock(hold: _Hold) -> None:
    """Shared with everybody who doesn't want the table alone; a rebalance keeps writers of old rows out as well.

    Raises:
        LockNotGranted: not at once; nobody queues behind a compaction that waits.
    """
    site, target = hold.site, hold.the_target()
    kind = LockType.EXCL_WRITE if hold.rebalances else LockType.SHARED_READ
    if site.metastore.locks.try_acquire(hold.transaction(), [target.lock(kind)], site.user, site.host) is not None:
        return
    why = "somebody writes to it" if hold.rebalances else "a statement holds or waits for it exclusively"
    raise LockNotGranted(f"{target.entity}: {why}; the next pass tries again")


def _may_compact(target: Target, entry: Entry) -> None:
    """Refuses by name what this release doesn't compact."""
    table = target.table
    if not table.is_transactional:
        raise Refused(f"{entry.entity}: the table is not transactional; only ACID tables are compacted")
    if target.partition.sort_columns if target.partition else table.sort_columns:
        raise Refused(f"{entry.entity}: the table is sorted, and compaction would not keep its order")
    if entry.type not in _SHAPES:
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


def _nothing_to_write(hold: _Hold, view: View, nothing: NothingToDo) -> Outcome:
    """Too little to merge: the cleaner gets the entry when there is something to remove, else it is refused."""
    if not nothing.obsolete:
        raise Refused(nothing.because)
    directory = view.directory
    numbers = [d.delta.max_write_id for d in directory.compactable()]
    if directory.base is not None:
        numbers.append(directory.base.base.write_id)
    _record(hold, max(numbers, default=view.write_ids.high_watermark), component=False)
    with _committing(hold):
        pass
    return Outcome(entry=hold.entry, fate=Fate.CLEAN_ONLY, message=nothing.because)


def _rewrite(hold: _Hold, view: View, heart: Heartbeat, runner: Runner, options: Options) -> Outcome:
    site, entry = hold.site, hold.entry
    shape = _SHAPES[entry.type]
    planned = _plan(hold, view, shape, options)
    _record(hold, planned.highest_write_id, component=True)
    pace = _pace(hold, options)
    planned, staged = _stage(hold, planned, heart, runner, pace)
    note = _not_as_minor(hold, planned, staged, heart)
    if note:
        planned = _plan(hold, view, Shape.MAJOR, options)
        if planned.shape is not Shape.MAJOR:
            raise Refused(
                f"{entry.entity}: {note}, and {planned.left.because}; raise the bound, so that it can be a major"
            )
        note = f"minor became major: {note}"
        planned, staged = _stage(hold, planned, heart, runner, pace)
    _must_be_alone(hold, staged, heart)
    heart.check()
    try:
        with _committing(hold):
            publish.name(site.storage, staged)
    except CommitUnknown:
        if not site.metastore.compactions.committed(entry, hold.transaction()):
            raise
    reach(Step.COMMITTED)
    _tidy(site, planned)
    reach(Step.STAGING_REMOVED)
    request_anew(site, entry, planned.left)
    return Outcome(
        entry=entry,
        fate=Fate.COMPACTED,
        message=note or str(planned.left),
        left=planned.left,
        figures=staged.figures,
        output=tuple(d.name for d in staged.directories),
        directories_in=len(planned.inputs),
    )


def _pace(hold: _Hold, options: Options) -> Pace:
    begun = time.monotonic()
    bound = bound_of(hold.the_target().settings)
    return Pace(bound=bound, elapsed_s=lambda: time.monotonic() - begun, stops=options.stops)


def _not_as_minor(hold: _Hold, planned: Plan, staged: Staged, heart: Heartbeat) -> str:
    """Why what a minor made can't be named as it is; empty where it can."""
    if planned.shape is Shape.MAJOR:
        return ""
    if not planned.layout.has_visibility:
        if planned.file_format is not None:
            return (
                "Hive 3.1 would show its rows to snapshots from before some of them: insert-only rows bear no write ID"
            )
        return _not_in_one_step(staged)
    halves = staged.is_pair and hold.the_target().settings.text("compactor.readers") == "any"
    if not halves or _take_exclusive(hold, heart):
        return ""
    return (
        "readers without visibility would meet one half of its pair, and no exclusive lock was granted within "
        "compactor.lock.wait"
    )


def _not_in_one_step(staged: Staged) -> str:
    """Hive 3.1 shows a directory from the moment of its name, to snapshots of any age, and also where its worker died.

    A base takes one rename, and snapshots below its number leave it alone. A minor equals it only as one directory in
    which no row is left out that an older snapshot still sees.
    """
    if staged.is_pair:
        return "Hive 3.1 would show one half of its pair wherever the other half is late, or never comes"
    if staged.figures.events_applied:
        return "Hive 3.1 would miss rows that were deleted within its range in snapshots from before that"
    return ""


def _must_be_alone(hold: _Hold, staged: Staged, heart: Heartbeat) -> None:
    """Takes the exclusive lock where readers without visibility would see some of a directory's files before the others
    (PROTOCOL 5).

    Raises:
        LockNotGranted: not within compactor.lock.wait; the request stays in the queue.
    """
    target = hold.the_target()
    guarantees = hold.site.storage.capabilities(target.location)
    if guarantees.renames or target.settings.text("compactor.readers") != "any":
        return
    files = sum(len(directory.files) for directory in staged.directories)
    if guarantees.needs_exclusive(files, len(staged.directories)) and not _take_exclusive(hold, heart):
        raise LockNotGranted(
            f"{hold.entry.entity}: {guarantees.store} has no rename, so {files} files are named one by one under an "
            "exclusive lock, and none was granted within compactor.lock.wait; the next pass tries again"
        )


def _tidy(site: Site, planned: Plan) -> None:
    """Removes the staging directory. The compaction is committed: what stays now is the cleaner's to sweep."""
    try:
        site.storage.remove(planned.staging)
    except StorageError as error:
        log.warning("%s: the staging directory stays until the partition is cleaned: %s", planned.location, error)


def _plan(hold: _Hold, view: View, shape: Shape, options: Options) -> Plan:
    target = hold.the_target()
    make = partial(
        plan,
        location=target.location,
        txn=hold.transaction(),
        write_ids=view.write_ids,
        row_type=target.row_type,
        layout=hold.site.metastore.dialect.layout,
        small_stripe_bytes=options.small_stripe_bytes,
        full_verify=options.full_verify,
        stores=hold.site.storage.options,
        file_format=hold.file_format,
        is_bucketed=target.table.buckets > 0,
    )
    bound = bound_of(target.settings)
    if hold.write_id is None:
        planned = bounded(view.directory, shape, bound, view.write_ids, make)
        return split_by(planned, target.settings.integer("compactor.split.bytes"))
    entry = hold.entry
    planned = must_hold(make(view.directory, shape), "a rebalance", bound)
    order = must_be_possible(target.table, buckets=entry.buckets or None, order_by=entry.order_by)
    return rebalanced(planned, hold.write_id, entry.buckets or None, order)


def _record(hold: _Hold, highest: WriteId, *, component: bool) -> None:
    """After planning and before anything is staged (PROTOCOL 3.2)."""
    hold.site.metastore.compactions.record(
        hold.entry,
        hold.worker_id,
        hold.transaction(),
        hold.run_as(),
        highest,
        component=component,
    )
    reach(Step.RECORDED)


def _stage(hold: _Hold, planned: Plan, heart: Heartbeat, runner: Runner, pace: Pace) -> tuple[Plan, Staged]:
    """Runs the units and proves their output; on return the manifest is written and nothing is named.

    Returns:
        also the plan, without the chunks for which there was no time.
    """
    site, entity, recorded = hold.site, hold.entry.entity, planned.highest_write_id
    _must_fit(site, planned)
    stage.prepare(site.storage, planned)

    def check() -> None:
        heart.check()
        if site.metastore.transactions.state(hold.transaction()) != "o":
            raise LostClaim(f"{entity}: transaction {hold.transaction()} of the compaction is not open any more")
        if site.metastore.locks.waiting_exclusive(entity):
            raise LockNotGranted(f"{entity}: a statement waits for it exclusively; the compaction yields to it")

    (results,) = runner.run([Job(units=planned.units, check=check, skips=pace.skips(planned))])
    if isinstance(results, CompactorError):
        raise results
    planned, results = finished(planned, results)
    if planned.highest_write_id != recorded:
        _record(hold, planned.highest_write_id, component=False)
    staged = stage.accept(site.storage, planned, results)
    stage.check(site.storage, planned, staged)
    stage.write_manifest(site.storage, planned, staged, entry_id=hold.entry.id)
    return planned, staged


def _must_fit(site: Site, planned: Plan) -> None:
    free = site.storage.free_bytes(planned.location)
    if free is not None and free < planned.input_bytes:
        raise StorageError(
            f"{planned.location}: the compaction may write {planned.input_bytes} bytes and {free} are free; make room and "
            "ask again"
        )


def _take_exclusive(hold: _Hold, heart: Heartbeat) -> bool:
    """Tries for the exclusive lock without ever queueing: a reader behind it would wait too (PROTOCOL 5)."""
    if hold.is_alone:
        return True
    site = hold.site
    deadline = time.monotonic() + hold.the_target().settings.milliseconds("compactor.lock.wait") / 1000
    wait = _FIRST_WAIT_S
    request = hold.the_target().lock(LockType.EXCLUSIVE)
    while True:
        heart.check()
        if site.metastore.locks.try_acquire(hold.transaction(), [request], site.user, site.host) is not None:
            hold.is_alone = True
            return True
        if time.monotonic() + wait > deadline:
            return False
        time.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT_S)


@contextmanager
def _committing(hold: _Hold) -> Iterator[None]:
    """The one critical section: locked and re-checked on entry, stamped and committed on exit (PROTOCOL 5)."""
    target = hold.the_target()
    limit = hold.site.settings.milliseconds("hive.txn.timeout") / 2000
    with hold.site.metastore.compactions.committing(
        hold.entry,
        hold.worker_id,
        hold.transaction(),
        table_id=target.table.id,
        partition_id=target.partition.id if target.partition else None,
        location=target.partition.location if target.partition else target.table.location,
    ):
        reach(Step.COMMITTING)
        begun = time.monotonic()
        yield
        if time.monotonic() - begun > limit:
            raise StorageError(f"{target.location}: naming took longer than {limit:.0f} s, half of hive.txn.timeout")
