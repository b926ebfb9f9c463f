"""The driver of a batch: works on its entries in groups, and stores figures and progress of its runs."""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import TypedDict, Unpack

from compactor.base.errors import CompactorError
from compactor.batches.control import free_for_next_attempt
from compactor.batches.read_cost import CostSampler, ReadCost
from compactor.initiator.fresh_look import look_at_changed
from compactor.insight.estimates import estimator_of, past_of, store_of
from compactor.rewrite.run.process_settings import collecting_rarely
from compactor.rewrite.run.runner import Runner
from compactor.settings.precedence import Settings
from compactor.site import lost_workers
from compactor.site.claim_turns import take_turns
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, own_state
from compactor.site.threads import Periodic, SideBySide
from compactor.state.batches import Batches
from compactor.state.runs import Run
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options, UnderWay
from compactor.worker.worker import work_together

log = logging.getLogger(__name__)
_THREADS = "compactor.store.threads"
_CHANGING = frozenset({Result.COMPACTED, Result.CLEAN_ONLY, Result.REFUSED, Result.FAILED, Result.ABORTED})
MAX_GROUP_SIZE = 64  #: the most entries that go through the steps of a compaction together
_AT_LEAST_EVERY_S = 10.0  #: so that a driver soon learns that a person has cancelled its batch
_THREADS_OF_GROUP = 16  #: threads that a group keeps busy on average


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The application that a batch's driver runs in."""

    id: str | None = None  #: the cluster's name for it
    attempt: int = 1  #: YARN restarts an application whose driver is gone, under the same id
    tracking_url: str | None = None  #: where people can watch it
    log_url: str | None = None  #: where they can read its driver's output
    max_seconds: float | None = None  #: after this time no further entry begins


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPass:
    """The result of each entry. ``mine`` is false if the batch belongs to another driver."""

    outcomes: tuple[Outcome, ...] = ()
    repaired: tuple[lost_workers.Repaired, ...] = ()
    mine: bool = True

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return tuple(o for o in self.outcomes if o.result is Result.FAILED)

    def to_json(self) -> dict[str, object]:
        return {
            "mine": self.mine,
            "repaired": [{"compaction": r.entry.id, "because": r.because} for r in self.repaired],
            "compactions": [
                {
                    "compaction": o.entry.id,
                    "table": str(o.entry.entity),
                    "type": o.entry.type.label,
                    "fate": o.result.name.lower(),
                    "message": o.message,
                    "output": list(o.output),
                    "seconds": round(o.seconds, 3),
                    "left": {"deltas": o.left.deltas, "bytes": o.left.bytes, "because": o.left.because},
                    "figures": {name: getattr(o.figures, name) for name in o.figures.__slots__},
                }
                for o in self.outcomes
            ],
        }


class Reservation(Periodic):
    """A thread that extends the reservation of ``batch_id``.

    It does so ten times within its length, and at least every ten seconds.

    If the database is unreachable for a while, nothing changes: the entries' own transactions decide who may commit.
    """

    def __init__(self, batches: Batches, batch_id: int, driver: str, reserved_ms: int) -> None:
        super().__init__(f"batch-{batch_id}", min(max(reserved_ms, 1) / 10_000, _AT_LEAST_EVERY_S))
        self._batches = batches
        self._batch_id = batch_id
        self._driver = driver
        self._reserved_ms = reserved_ms
        self._taken = threading.Event()

    @property
    def is_held(self) -> bool:
        """False once the batch no longer belongs to this driver: it must not begin another entry."""
        return not self._taken.is_set()

    def _act(self) -> bool:
        try:
            is_extended = self._batches.extend(self._batch_id, self._driver, self._reserved_ms)
        except CompactorError as error:
            log.warning("batch %d: its reservation could not be extended: %s", self._batch_id, error)
            return True
        if not is_extended:
            log.warning("batch %d no longer belongs to this driver, which begins no further entry", self._batch_id)
            self._taken.set()
        return is_extended


def run_batch(
    site: Site,
    batch_id: int,
    runner: Runner,
    options: Options | None = None,
    *,
    parallel: int = 1,
    progress: Callable[[Outcome], None] = lambda outcome: None,
    application: Application = Application(),
) -> WorkerPass:
    """Works on a planned batch, if this is its first driver or the next attempt of the same application.

    Any other driver touches nothing.

    Args:
        parallel: number of groups of entries that run at once; each entry is published separately.
        progress: called with each entry's outcome as soon as it is done.
    """
    store = own_state(site)
    driver = site.identity("driver")
    reserved_ms = site.settings.milliseconds("compactor.batch.reserved")
    if application.attempt > 1 and application.id is not None:
        free_for_next_attempt(site, batch_id, application.id)
    if not store.batches.register(batch_id, driver, reserved_ms):
        log.info("batch %d belongs to another driver; nothing is done here", batch_id)
        return WorkerPass(mine=False)
    store.batches.describe(
        batch_id,
        driver,
        application_id=application.id,
        tracking_url=application.tracking_url,
        log_url=application.log_url,
    )
    until = math.inf if application.max_seconds is None else time.monotonic() + application.max_seconds
    try:
        with Reservation(store.batches, batch_id, driver, reserved_ms) as reservation:
            # An entry of a lost attempt is still working; ``run_entries`` takes it back.
            queued = site.metastore.entries.queue(ids=store.batches.get(batch_id).entry_ids)
            done = run_entries(
                site,
                [turn.entry.id for turn in take_turns(site, queued)],
                runner,
                options,
                parallel=parallel,
                progress=progress,
                may_begin=lambda: reservation.is_held and time.monotonic() < until,
            )
    except BaseException:
        store.batches.release(batch_id, driver)  # not done: its watcher may start another driver or raise an alarm
        raise
    store.batches.finish(batch_id, driver)
    return done


class RunArguments(TypedDict, total=False):
    """The further arguments of ``run_without_repair``."""

    parallel: int
    progress: Callable[[Outcome], None]
    may_begin: Callable[[], bool]


def count_concurrent_groups(settings: Settings) -> int:
    """Returns the number of groups that a worker without Spark runs at once.

    While one group runs its units, another one works on the database. Further groups help if the store is slow to answer.
    """
    return max(2, settings.integer(_THREADS) // _THREADS_OF_GROUP)


def run_entries(
    site: Site, ids: Sequence[int], runner: Runner, options: Options | None = None, **manner: Unpack[RunArguments]
) -> WorkerPass:
    """Takes back the entries of lost workers, then works on entries as ``run_without_repair`` does."""
    repaired = lost_workers.repair(site)
    return replace(run_without_repair(site, ids, runner, options, **manner), repaired=repaired)


def run_without_repair(
    site: Site,
    ids: Sequence[int],
    runner: Runner,
    options: Options | None = None,
    *,
    parallel: int = 1,
    progress: Callable[[Outcome], None] = lambda outcome: None,
    may_begin: Callable[[], bool] = lambda: True,
) -> WorkerPass:
    """Works on entries of the queue, in a pass that has already taken back entries of lost workers.

    A failed entry does not stop the others. A bug ends the pass once the other groups are done. Entries that the mode leaves
    to Hive's workers are skipped.

    Args:
        parallel: number of groups of entries that run at once.
        progress: called with each entry's outcome as soon as it is done.
        may_begin: returns false once no further group may begin.
    """
    site = site.for_a_pass()
    outcomes: list[Outcome] = []
    lock = threading.Lock()
    sampler, under_way, began = CostSampler(site), UnderWay(), site.metastore.now_ms()

    def run_group(options: Options, group: Sequence[int]) -> Sequence[int]:
        if not may_begin():
            return ()
        must_be_newest(site, polling=True)
        done: list[Outcome] = []

        def on_done(outcome: Outcome) -> None:
            under_way.end(outcome.entry.id)
            done.append(outcome)
            with lock:
                outcomes.append(outcome)
                progress(outcome)

        try:
            return work_together(site, group, runner, options, on_done)
        finally:
            _store_figures(site, done, sampler, began)

    size = min(MAX_GROUP_SIZE, site.settings.integer("hive.txn.max.open.batch"), -(-len(ids) // parallel) or 1)
    groups: list[Sequence[int]] = [ids[start : start + size] for start in range(0, len(ids), size)]
    errors: list[BaseException] = []
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="group")
    writer = ProgressWriter(site, under_way)
    with collecting_rarely(), SideBySide(site.settings.integer(_THREADS), "store") as threads, pool, writer:
        # Entries that ``work_together`` returns go alone through a further round.
        run = partial(run_group, replace(options or Options(), threads=threads, under_way=under_way))
        while groups:
            futures = [pool.submit(run, group) for group in groups]
            groups = []
            for future in as_completed(futures):
                error = future.exception()
                if error is not None:
                    errors.append(error)
                else:
                    groups += [[entry_id] for entry_id in future.result()]
    look_at_changed(site, [outcome.entry.entity for outcome in outcomes if outcome.result in _CHANGING])
    if errors:
        raise errors[0]
    return WorkerPass(outcomes=tuple(sorted(outcomes, key=lambda o: o.entry.id)))


def _store_figures(site: Site, outcomes: Iterable[Outcome], sampler: CostSampler, began: int) -> None:
    """Measures and stores the figures of a group's runs, for ``explain`` and the page.

    No correctness depends on them.

    Args:
        began: begin of the batch (epoch ms); its own runs do not predict each other.
    """
    if site.state is None:
        return
    compacted = [outcome for outcome in outcomes if outcome.result is Result.COMPACTED]
    runs = [_make_run(site, outcome, sampler.measure(outcome)) for outcome in compacted]
    if runs:
        try:
            committed = site.metastore.entries.commit_times([run.entry_id for run in runs])
            dated = [replace(run, ended_at=committed.get(run.entry_id)) for run in runs]
            site.state.runs.add_all(_add_estimates(site, dated, began))
        except Exception as error:  # noqa: BLE001 - the compactions are committed (PROTOCOL 11.14)
            log.warning("the figures of %d entries could not be stored: %s", len(runs), error)


def _add_estimates(site: Site, runs: Sequence[Run], began: int) -> list[Run]:
    """Returns the runs of a group with the seconds that the runs of earlier batches predict for all of it."""
    group_key = uuid.uuid4().hex if len(runs) > 1 else None
    estimated = []
    for store in sorted({run.store or "" for run in runs}):
        group = [replace(run, group_key=group_key) for run in runs if (run.store or "") == store]
        past = past_of(group)
        estimate = None
        if past is not None:
            estimate = estimator_of(site.state, site.name, store, before=began).estimate(past.work)
        if estimate is not None:
            seconds, low, high = estimate.seconds, estimate.low, estimate.high
            group = [replace(run, expected_seconds=seconds, expected_low=low, expected_high=high) for run in group]
        estimated += group
    return estimated


def _make_run(site: Site, outcome: Outcome, opening: ReadCost | None) -> Run:
    f = outcome.figures
    return Run(
        metastore=site.name,
        entry_id=outcome.entry.id,
        entity=outcome.entry.entity,
        type=outcome.entry.type,
        txn=outcome.txn,
        worker_id=outcome.worker_id,
        directories_before=len(outcome.inputs),
        directories_after=len(outcome.output),
        files_before=f.files_in,
        files_after=f.files_out,
        bytes_before=f.bytes_in,
        bytes_after=f.bytes_out,
        rows_in=f.rows_in,
        rows_out=f.rows_out,
        stripes_copied=f.stripes_copied,
        stripes_reencoded=f.stripes_encoded,
        stripes_dropped=f.stripes_dropped,
        seconds=outcome.seconds,
        bytes_copied=f.bytes_copied,
        bytes_taken_over=f.bytes_taken_over,
        store=store_of(outcome.location),
        together=outcome.together,
        core_seconds=f.core_seconds,
        deltas_left=outcome.left.deltas,
        bytes_left=outcome.left.bytes,
        opening_before=None if opening is None else opening.before,
        opening_after=None if opening is None else opening.after,
    )


EVERY_S = 2.0


class ProgressWriter(Periodic):
    """A thread that stores changed progress every two seconds, and removes it when the block ends.

    Each round is one small transaction. Work that takes less than a round leaves no trace. If the database does not answer,
    the next round writes again.
    """

    def __init__(self, site: Site, under_way: UnderWay, every_s: float = EVERY_S) -> None:
        super().__init__("progress", every_s)
        self._site = site
        self._under_way = under_way
        self._written: set[int] = set()

    def _act(self) -> bool:
        state = self._site.state
        if state is None:
            return False
        rows = self._under_way.changed()
        try:
            state.runs.record_progress(self._site.name, rows)
            self._written |= {row.entry_id for row in rows}
        except CompactorError as error:
            log.info("the progress of %d entries could not be stored: %s", len(rows), error)
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._forget()

    def _forget(self) -> None:
        state = self._site.state
        if state is None or not self._written:
            return
        try:
            state.runs.forget_progress(self._site.name, self._written)
        except CompactorError as error:
            log.info("the progress of %d entries could not be removed: %s", len(self._written), error)
