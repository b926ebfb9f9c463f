"""Batches: which queue entries one Spark application takes, and that only its first driver works on them."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace

from compactor.compaction.batching import Item, RouteBatch, batches
from compactor.compaction.entry import Entry
from compactor.compaction.routing import Route, route
from compactor.compaction.states import State
from compactor.errors import CompactorError, DatabaseUnavailable
from compactor.rewrite.run.runner import Runner
from compactor.service import repair
from compactor.service.batches.pool_hours import Startable, policy_of, startable
from compactor.service.batches.read_cost import ReadCost, Sampler
from compactor.service.batches.reservation import Reservation
from compactor.service.mode import Mode, may
from compactor.service.site import Site, Target
from compactor.service.worker.outcome import Outcome, Result
from compactor.service.worker.work import Options, is_ours, work_together
from compactor.state.runs import Run
from compactor.state.store import OwnState

log = logging.getLogger(__name__)
TOGETHER = 64  #: entries that take the steps of a compaction together at most


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A batch as the state remembers it: what a launcher needs to start its application."""

    batch_id: int
    pool: str | None
    queue: str | None
    run_as: str | None
    conf: Mapping[str, str]
    entries: int
    bytes: int
    job: str = ""  #: the name of its application: whose host planned it, and what of
    resident: int | None = None  #: an application that waits will take it, so that none is to be started
    max_seconds: int | None = None  #: after which it is to stop, for its pool's hours are over then

    def to_json(self) -> dict[str, object]:
        return {
            "batch": self.batch_id,
            "pool": self.pool,
            "queue": self.queue,
            "run_as": self.run_as,
            "conf": dict(self.conf),
            "entries": self.entries,
            "bytes": self.bytes,
            "job": self.job,
            "resident": self.resident,
            "max_seconds": self.max_seconds,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPass:
    """What became of each entry. ``mine`` is False when another driver has the batch."""

    outcomes: tuple[Outcome, ...] = ()
    repaired: tuple[repair.Repaired, ...] = ()
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


def own_state(site: Site) -> OwnState:
    """The state of ours, where it must be there.

    Raises:
        DatabaseUnavailable: this metastore has none.
    """
    if site.state is None:
        raise DatabaseUnavailable(
            f"metastore {site.name}: batches need our own state and none is configured; set state_url"
        )
    return site.state


def plan_batches(site: Site, pool: str | None = None, *, route: str | None = None) -> list[PlannedBatch]:
    """Puts everything that can be claimed now into batches; entries that another batch has reserved stay where they are.

    Args:
        pool: only this pool's entries; None plans every pool.
        route: digest of the only route to plan for, one batch of it at most: a resident's.
    """
    store = own_state(site)
    if may(site.settings, Mode.COMPACT):
        repair.repair(site)
    store.residents.bury(site.name)
    reserved = store.batches.reserved(site.name)
    items = [_item(site, entry) for entry in _claimable(site, pool, reserved)]
    if route is not None:
        items = [item for item in items if item.route.digest == route]
    made = batches(items, site.settings.integer("compactor.batch.bytes"))[: None if route is None else 1]
    return [_register(site, store, found) for found in startable(site, made)]


def _claimable(site: Site, pool: str | None, reserved: Collection[int]) -> list[Entry]:
    """Entries that wait and that the mode of their table doesn't leave to Hive's workers; it is asked once a table."""
    ours: dict[tuple[str, str], bool] = {}
    waiting: list[Entry] = []
    for entry in site.metastore.compactions.queue(states=(State.INITIATED,)):
        if entry.id in reserved or not (pool is None or entry.pool == pool):
            continue
        table = (entry.entity.database, entry.entity.table)
        if table not in ours:
            ours[table] = is_ours(site, entry.entity)
        if ours[table]:
            waiting.append(entry)
    return waiting


def _item(site: Site, entry: Entry) -> Item:
    """The entry with its bytes and route."""
    try:
        target = site.target(entry.entity, entry.properties)
        size = sum(f.length for f in site.storage.listing(target.location).files)
    except CompactorError:  # the worker will say what is wrong with it, in the row's history
        return Item(entry=entry, bytes=0, route=Route(pool=entry.pool))
    return Item(entry=entry, bytes=size, route=_route(site, entry, target))


def _route(site: Site, entry: Entry, target: Target) -> Route:
    """As settings say; the queue of the pool where they name none."""
    found = route(entry, target.settings, owner=target.table.owner)
    policy = policy_of(site, found.pool)
    return found if found.queue or policy is None else replace(found, queue=policy.queue)


def _register(site: Site, store: OwnState, found: Startable) -> PlannedBatch:
    batch, r = found.batch, found.batch.route
    number = store.batches.plan(
        site.name,
        r.pool,
        r.queue,
        [item.entry.id for item in batch.items],
        dict(r.conf),
        route=r.digest,
        reserved_ms=site.settings.milliseconds("compactor.batch.reserved"),
    )
    return PlannedBatch(
        batch_id=number,
        pool=r.pool,
        queue=r.queue,
        run_as=None if r.run_as == site.user else r.run_as,
        conf=dict(r.conf),
        entries=len(batch.items),
        bytes=batch.bytes,
        job=_job(site, batch, number),
        resident=store.batches.get(number).resident,
        max_seconds=found.max_seconds,
    )


def _job(site: Site, batch: RouteBatch, number: int) -> str:
    """As Hive names a compaction's job where it is one, else by the batch."""
    if len(batch.items) > 1:
        return f"{site.host}-compactor-{site.name}-{number}"
    e = batch.items[0].entry.entity
    return f"{site.host}-compactor-" + ".".join(name for name in (e.database, e.table, e.partition) if name is not None)


def run_batch(
    site: Site,
    batch_id: int,
    runner: Runner,
    options: Options | None = None,
    *,
    parallel: int = 1,
    progress: Callable[[Outcome], None] = lambda outcome: None,
    tracking_url: str | None = None,
    max_seconds: float | None = None,
) -> WorkerPass:
    """Works on a planned batch, if this is its first driver; a second one touches nothing.

    Args:
        parallel: groups of entries under way at once; each entry is published for itself.
        tracking_url: where people see the application that does it.
        max_seconds: after which no further entry is begun.
    """
    store = own_state(site)
    driver = site.identity("driver")
    reserved_ms = site.settings.milliseconds("compactor.batch.reserved")
    if not store.batches.register(batch_id, driver, reserved_ms):
        log.info("batch %d belongs to another driver; nothing is done here", batch_id)
        return WorkerPass(mine=False)
    store.batches.set_tracking(batch_id, driver, tracking_url)
    until = math.inf if max_seconds is None else time.monotonic() + max_seconds
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
        store.batches.release(batch_id, driver)  # not done: who watches it may want another driver, or tell somebody
        raise
    store.batches.done(batch_id, driver)
    return done


def run_entries(
    site: Site,
    ids: Sequence[int],
    runner: Runner,
    options: Options | None = None,
    *,
    parallel: int = 1,
    progress: Callable[[Outcome], None] = lambda outcome: None,
    wanted: Callable[[], bool] = lambda: True,
    repairs: bool = True,
) -> WorkerPass:
    """Works on entries of the queue. An entry's failure is its own; an error that is a bug ends the pass after the rest.

    Entries that the mode leaves to Hive's workers are passed over, and all that is not begun once ``wanted`` says no.

    Args:
        parallel: groups of entries under way at once.
        repairs: takes back first what lost workers held; False for what goes on with a pass that did.
    """
    repaired = repair.repair(site) if repairs else ()
    outcomes: list[Outcome] = []
    lock = threading.Lock()
    sampler = Sampler(site)

    def told(outcome: Outcome) -> None:
        with lock:
            outcomes.append(outcome)
            progress(outcome)

    def begin(group: Sequence[int]) -> Sequence[int]:
        if not wanted():
            return ()
        done: list[Outcome] = []

        def ended(outcome: Outcome) -> None:
            done.append(outcome)
            told(outcome)

        try:
            return work_together(site, group, runner, options or Options(), ended)
        finally:
            _remember(site, done, sampler)

    most = min(TOGETHER, site.settings.integer("hive.txn.max.open.batch"), -(-len(ids) // parallel) or 1)
    groups: list[Sequence[int]] = [ids[start : start + most] for start in range(0, len(ids), most)]
    broken: list[BaseException] = []
    with ThreadPoolExecutor(parallel, thread_name_prefix="group") as pool:
        while groups:
            futures = [pool.submit(begin, group) for group in groups]
            groups = []
            for future in as_completed(futures):
                error = future.exception()
                if error is not None:
                    broken.append(error)
                else:
                    groups += [[entry_id] for entry_id in future.result()]
    if broken:
        raise broken[0]
    return WorkerPass(outcomes=tuple(sorted(outcomes, key=lambda o: o.entry.id)), repaired=repaired)


def claimable(site: Site, pool: str | None = None) -> list[int]:
    """Ids of the entries that a worker without a batch may take now."""
    reserved = site.state.batches.reserved(site.name) if site.state is not None else frozenset()
    return [entry.id for entry in _claimable(site, pool, reserved)]


def _remember(site: Site, outcomes: Iterable[Outcome], sampler: Sampler) -> None:
    """Measures and stores the figures of a group's runs, for ``explain`` and the page; nothing correct depends on them."""
    if site.state is None:
        return
    runs = [_run(site, outcome, sampler.measure(outcome)) for outcome in outcomes if outcome.result is Result.COMPACTED]
    try:
        site.state.runs.add_all(runs)
    except DatabaseUnavailable as error:
        log.warning("the figures of %d entries are not kept: %s", len(runs), error)


def _run(site: Site, outcome: Outcome, opening: ReadCost | None) -> Run:
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
        deltas_left=outcome.left.deltas,
        bytes_left=outcome.left.bytes,
        opening_before=None if opening is None else opening.before,
        opening_after=None if opening is None else opening.after,
    )
