"""Assembles batches: chooses the queue entries of one Spark application, and records them.

A pool may hold its batches back, because of its hours or its number of applications. Their entries stay in the queue.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from compactor.base.errors import CompactorError, DatabaseUnavailable, LostClaim, failing_alone
from compactor.base.identities import process_user
from compactor.compaction.pool_policy import (
    DEFAULT,
    Allowance,
    Item,
    PoolPolicy,
    Route,
    RouteBatch,
    group_batches,
    route,
)
from compactor.compaction.pool_policy import compute_allowance as allowance_of_policy
from compactor.compaction.queue_entry import Entry
from compactor.site import lost_workers
from compactor.site.claim_turns import take_turns
from compactor.site.mode import Mode, may_somewhere
from compactor.site.run_as import run_as
from compactor.site.site import Site, Target, own_state
from compactor.state.batches import SchedulerTask
from compactor.state.state_database import OwnState
from compactor.worker.waiting_entries import end_waiting, is_ours

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A recorded batch.

    It has all that a launcher needs to start its application, except ``Settings.secret_spark_conf``.
    """

    batch_id: int
    pool: str | None
    queue: str | None
    run_as: str | None
    conf: Mapping[str, str]
    entries: int
    bytes: int
    job: str = ""  #: the application's name: the host that planned it, and the table or batch
    resident: int | None = None  #: the waiting application that will take the batch, so that none has to start
    max_seconds: int | None = None  #: when the application has to stop, because the hours of its pool end
    planned_at: int = 0  #: epoch ms of the database's clock; with the id, it distinguishes the batch everywhere

    def to_json(self) -> dict[str, object]:
        """Returns the fields that may be printed."""
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


TaskFor: TypeAlias = Callable[[str | None, Sequence[PlannedBatch]], SchedulerTask | None]


def plan_batches(
    site: Site,
    pools: Collection[str] | None = None,
    *,
    route: str | None = None,
    most: int | None = None,
    task_for: TaskFor = lambda pool, planned: None,
) -> list[PlannedBatch]:
    """Puts the entries that can be claimed now into batches, except those that another batch reserves.

    Batches are planned in the order of their first requests (``take_turns``). Another planner may take an entry
    meanwhile; then the batch with this entry is left to the next pass.

    Args:
        pools: the pools whose entries are planned, where ``default`` is for entries without a pool; None for all.
        route: digest of a route; if set, plans at most one batch, of this route. Resident applications use it.
        most: the most batches to plan; the entries of others stay unreserved. None for no bound.
        task_for: returns the task of a scheduler that will submit the next batch, from its pool and the batches before it.
    """
    store = own_state(site)
    if may_somewhere(site.settings, Mode.COMPACT):
        lost_workers.repair(site)
    store.batches.remove_dead_residents(site.name)
    reserved = store.batches.reserved(site.name)
    items = [item for entry in _list_claimable(site, pools, reserved) if (item := _make_item(site, entry)) is not None]
    if route is not None:
        items = [item for item in items if item.route.digest == route]
    assembled = group_batches(items, site.settings.integer("compactor.batch.bytes"))[: None if route is None else 1]
    planned: list[PlannedBatch] = []
    for startable in select_startable(site, assembled):
        if most is not None and len(planned) >= most:
            log.info("%d batches are planned, as many as the caller can start; the rest waits for the next pass", most)
            break
        try:
            task = task_for(startable.batch.route.pool, planned)
            planned.append(_register(site, store, startable, task))
        except LostClaim as lost:
            log.info("a batch is left to the next pass: %s", lost)
    return planned


def list_claimable_ids(site: Site, pools: Collection[str] | None = None) -> list[int]:
    """Returns the ids of entries that a worker without a batch may take now, in their order."""
    reserved = site.state.batches.reserved(site.name) if site.state is not None else frozenset()
    return [entry.id for entry in _list_claimable(site, pools, reserved)]


def _list_claimable(site: Site, pools: Collection[str] | None, reserved: Collection[int]) -> list[Entry]:
    """Returns waiting entries in the order of ``take_turns``, without those that the mode leaves to Hive.

    The mode is read once per table.
    """
    ours: dict[tuple[str, str], bool] = {}
    waiting: list[Entry] = []
    for entry in site.metastore.entries.waiting():
        if entry.id in reserved or not (pools is None or (entry.pool or DEFAULT) in pools):
            continue
        table = (entry.entity.database, entry.entity.table)
        if table not in ours:
            ours[table] = is_ours(site, entry.entity)
        if ours[table]:
            waiting.append(entry)
    return [turn.entry for turn in take_turns(site, waiting)]


def _make_item(site: Site, entry: Entry) -> Item | None:
    """Returns the entry with its size in bytes and its route.

    If it has no route, nothing is launched for it. The entry ends with the error, as in a worker, and the answer is None.
    """
    try:
        with failing_alone(entry.entity):
            target = site.target(entry.entity, entry.properties)
            chosen_route = _choose_route(site, entry, target)
    except DatabaseUnavailable:
        raise
    except CompactorError as error:
        log.warning("%s entry %d: nothing is launched for it: %s", entry.entity, entry.id, error)
        end_waiting(site, entry.id, error)
        return None
    try:
        with failing_alone(entry.entity):
            size = sum(f.length for f in site.storage.listing(target.location).files)
    except CompactorError as error:
        log.warning("%s entry %d: its worker will record this: %s", entry.entity, entry.id, error)
        size = 0
    return Item(entry=entry, bytes=size, route=chosen_route)


def _choose_route(site: Site, entry: Entry, target: Target) -> Route:
    """Returns the route by the settings. If they name no queue, it gets the queue of its pool."""
    chosen = route(entry, target.settings, run_as=run_as(site, target))
    policy = find_policy(site, chosen.pool)
    return chosen if chosen.queue or policy is None else replace(chosen, queue=policy.queue)


def _register(site: Site, store: OwnState, startable: StartableBatch, task: SchedulerTask | None) -> PlannedBatch:
    batch, r = startable.batch, startable.batch.route
    number = store.batches.plan(
        site.name,
        r.pool,
        r.queue,
        [item.entry.id for item in batch.items],
        dict(r.conf),
        route=r.digest,
        task=task,
        reserved_ms=site.settings.milliseconds("compactor.batch.reserved"),
    )
    planned = store.batches.get(number)
    return PlannedBatch(
        batch_id=number,
        pool=r.pool,
        queue=r.queue,
        run_as=None if r.run_as == process_user() else r.run_as,
        conf=dict(r.conf),
        entries=len(batch.items),
        bytes=batch.bytes,
        job=_job_name(site, batch, number),
        resident=planned.resident,
        max_seconds=startable.max_seconds,
        planned_at=planned.planned_at,
    )


def _job_name(site: Site, batch: RouteBatch, number: int) -> str:
    """Returns the application's name: Hive's name of the job of a single compaction, or by the batch.

    Examples: ``host-compactor-sales.orders.day=2026-11-01``, ``host-compactor-default-7``.
    """
    if len(batch.items) > 1:
        return f"{site.host}-compactor-{site.name}-{number}"
    e = batch.items[0].entry.entity
    return f"{site.host}-compactor-" + ".".join(name for name in (e.database, e.table, e.partition) if name is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StartableBatch:
    """A batch that may start now, and the seconds after which it has to stop (None: no limit)."""

    batch: RouteBatch
    max_seconds: int | None = None


def find_policy(site: Site, pool: str | None) -> PoolPolicy | None:
    """Returns the site's policy for a pool; None without a policy."""
    return site.pools.get(pool or DEFAULT)


def compute_allowance(site: Site, policy: PoolPolicy, running: int) -> Allowance:
    """Returns what the pool may start now, by the database's clock."""
    return allowance_of_policy(policy, site.now(policy), running)


def select_startable(site: Site, batches: Sequence[RouteBatch]) -> Iterator[StartableBatch]:
    """Yields the batches, in their order, that their pools may start now."""
    running = site.state.batches.count_by_pool(site.name) if site.state is not None and site.pools else {}
    allowed: dict[str | None, Allowance] = {}
    started: dict[str | None, int] = {}
    for batch in batches:
        pool = batch.route.pool
        policy = find_policy(site, pool)
        if policy is None:
            yield StartableBatch(batch=batch)
            continue
        if pool not in allowed:
            allowed[pool] = compute_allowance(site, policy, running.get(pool, 0))
            log.info("%s", allowed[pool].because)
        limit = allowed[pool].applications
        if limit is not None and started.get(pool, 0) >= limit:
            log.info("pool %s: %d requests wait for their turn", policy.name, len(batch.items))
            continue
        started[pool] = started.get(pool, 0) + 1
        seconds = allowed[pool].run_seconds
        yield StartableBatch(batch=batch, max_seconds=None if seconds is None else max(1, int(seconds)))
