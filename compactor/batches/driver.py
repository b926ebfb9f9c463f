"""The driver of a batch: it alone works on the batch's entries, in groups, and keeps the figures of what it did."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from typing import TypedDict, Unpack

from compactor.batches.control import free_for_next_attempt
from compactor.batches.progress_writer import ProgressWriter
from compactor.batches.read_cost import ReadCost, Sampler
from compactor.batches.reservation import Reservation
from compactor.initiator.fresh_look import look_at_changed
from compactor.insight.past_runs import estimator_of, past_of, store_of
from compactor.rewrite.run.rare_collections import collecting_rarely
from compactor.rewrite.run.runner import Runner
from compactor.settings.precedence import Settings
from compactor.site import lost_workers
from compactor.site.restored_database import must_be_newest
from compactor.site.side_by_side import SideBySide
from compactor.site.site import Site, own_state
from compactor.state.runs import Run
from compactor.worker.outcome import Outcome, Result
from compactor.worker.under_way import UnderWay
from compactor.worker.work import work_together
from compactor.worker.worker_options import Options

log = logging.getLogger(__name__)
_THREADS = "compactor.store.threads"
_CHANGING = frozenset({Result.COMPACTED, Result.CLEAN_ONLY, Result.REFUSED, Result.FAILED, Result.ABORTED})
MAX_GROUP_SIZE = 64  #: the most entries that go through the steps of a compaction together
_THREADS_OF_GROUP = 16  #: that a group keeps busy on the average


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """The application that a batch's driver runs in."""

    id: str | None = None  #: the cluster's name for it
    attempt: int = 1  #: YARN starts an application again whose driver is gone, under the same id
    tracking_url: str | None = None  #: where people can watch it
    log_url: str | None = None  #: where they can read its driver's output
    max_seconds: float | None = None  #: after this time no further entry is begun


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPass:
    """The result of each entry. ``mine`` is False when the batch belongs to another driver."""

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
    """Works on a planned batch, if this is its first driver; a second one touches nothing, unless it is the next attempt of
    the same application.

    Args:
        parallel: number of groups of entries that run at once; each entry is published on its own.
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
            done = run_entries(
                site,
                store.batches.get(batch_id).entry_ids,
                runner,
                options,
                parallel=parallel,
                progress=progress,
                wanted=lambda: reservation.is_held and time.monotonic() < until,
            )
    except BaseException:
        store.batches.release(batch_id, driver)  # not done: its watcher may want another driver, or raise an alarm
        raise
    store.batches.done(batch_id, driver)
    return done


class Manner(TypedDict, total=False):
    """The further arguments of ``run_without_repair``."""

    parallel: int
    progress: Callable[[Outcome], None]
    wanted: Callable[[], bool]


def groups_at_once(settings: Settings) -> int:
    """Returns the number of groups that a worker without Spark has under way at once: while the units of one run, another
    works on the database, and further ones keep more threads busy with a store that is far."""
    return max(2, settings.integer(_THREADS) // _THREADS_OF_GROUP)


def run_entries(
    site: Site, ids: Sequence[int], runner: Runner, options: Options | None = None, **manner: Unpack[Manner]
) -> WorkerPass:
    """Takes back what lost workers held, then works on entries of the queue as ``run_without_repair`` does."""
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
    wanted: Callable[[], bool] = lambda: True,
) -> WorkerPass:
    """Works on entries of the queue, in a pass that has repaired already. An entry that fails does not stop the others;
    an error that is a bug ends the pass once the others are done.

    Entries that the mode leaves to Hive's workers are skipped, and so is everything not yet begun when ``wanted``
    returns false.

    Args:
        parallel: number of groups of entries that run at once.
        progress: called with each entry's outcome as soon as it is done.
    """
    site = site.for_a_pass()
    outcomes: list[Outcome] = []
    lock = threading.Lock()
    sampler, under_way = Sampler(site), UnderWay()

    def run_group(options: Options, group: Sequence[int]) -> Sequence[int]:
        if not wanted():
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
            _keep_figures(site, done, sampler)

    size = min(MAX_GROUP_SIZE, site.settings.integer("hive.txn.max.open.batch"), -(-len(ids) // parallel) or 1)
    groups: list[Sequence[int]] = [ids[start : start + size] for start in range(0, len(ids), size)]
    broken: list[BaseException] = []
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="group")
    watched = ProgressWriter(site, under_way)
    with collecting_rarely(), SideBySide(site.settings.integer(_THREADS), "store") as threads, pool, watched:
        run = partial(run_group, replace(options or Options(), threads=threads, under_way=under_way))
        while groups:
            futures = [pool.submit(run, group) for group in groups]
            groups = []
            for future in as_completed(futures):
                error = future.exception()
                if error is not None:
                    broken.append(error)
                else:
                    groups += [[entry_id] for entry_id in future.result()]
    look_at_changed(site, [outcome.entry.entity for outcome in outcomes if outcome.result in _CHANGING])
    if broken:
        raise broken[0]
    return WorkerPass(outcomes=tuple(sorted(outcomes, key=lambda o: o.entry.id)))


def _keep_figures(site: Site, outcomes: Iterable[Outcome], sampler: Sampler) -> None:
    """Measures and stores the figures of a group's runs for ``explain`` and the page; no correctness depends on them."""
    if site.state is None:
        return
    runs = [
        _run_record(site, outcome, sampler.measure(outcome))
        for outcome in outcomes
        if outcome.result is Result.COMPACTED
    ]
    if runs:
        try:
            site.state.runs.add_all(_with_estimates(site, runs))
        except Exception as error:  # noqa: BLE001 - the compactions are committed (PROTOCOL 11.14)
            log.warning("the figures of %d entries could not be stored: %s", len(runs), error)


def _with_estimates(site: Site, runs: Sequence[Run]) -> list[Run]:
    """Returns the runs with what was to be expected of each by those before them: what is copied is known before."""
    stores = {run.store: estimator_of(site.state, site.name, run.store) for run in runs if run.store is not None}
    found = []
    for run in runs:
        past = past_of(run)
        expected = None if past is None else stores[past.work.store].estimate(past.work)
        found.append(run if expected is None else replace(run, expected_seconds=expected.seconds))
    return found


def _run_record(site: Site, outcome: Outcome, opening: ReadCost | None) -> Run:
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
