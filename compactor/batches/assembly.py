"""Assembles batches: chooses the queue entries that one Spark application takes, and records them in our state."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.base.identities import process_user
from compactor.batches.pool_limits import StartableBatch, policy_of, startable_batches
from compactor.compaction.batching import Item, RouteBatch, batches
from compactor.compaction.entry import Entry
from compactor.compaction.pool_policy import DEFAULT
from compactor.compaction.routing import Route, route
from compactor.compaction.states import State
from compactor.site import lost_workers
from compactor.site.mode import Mode, may_somewhere
from compactor.site.run_as import run_as
from compactor.site.site import Site, Target, own_state
from compactor.state.store import OwnState
from compactor.worker.work import end_waiting, is_ours

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBatch:
    """A batch as our state records it: everything a launcher needs to start its application, except the site's secret keys
    of Spark (``Settings.secret_spark_conf``)."""

    batch_id: int
    pool: str | None
    queue: str | None
    run_as: str | None
    conf: Mapping[str, str]
    entries: int
    bytes: int
    job: str = ""  #: the application's name: the host that planned it, and the table or batch
    resident: int | None = None  #: a waiting application that will take the batch, so that none has to be started
    max_seconds: int | None = None  #: when the application has to stop, because its pool's hours end then
    planned_at: int = 0  #: epoch ms of the database's clock; with the id, it distinguishes the batch everywhere

    def to_json(self) -> dict[str, object]:
        """Returns what may be printed."""
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


def plan_batches(site: Site, pools: Collection[str] | None = None, *, route: str | None = None) -> list[PlannedBatch]:
    """Puts everything that can be claimed now into batches; entries that another batch has reserved are left alone.

    Args:
        pools: plan only the entries of these pools, of which ``default`` is that of entries without one; None plans all.
        route: digest of the only route to plan for, at most one batch of it; used by a resident application.
    """
    store = own_state(site)
    if may_somewhere(site.settings, Mode.COMPACT):
        lost_workers.repair(site)
    store.residents.bury(site.name)
    reserved = store.batches.reserved(site.name)
    items = [item for entry in _claimable(site, pools, reserved) if (item := _item(site, entry)) is not None]
    if route is not None:
        items = [item for item in items if item.route.digest == route]
    made = batches(items, site.settings.integer("compactor.batch.bytes"))[: None if route is None else 1]
    return [_register(site, store, found) for found in startable_batches(site, made)]


def claimable(site: Site, pools: Collection[str] | None = None) -> list[int]:
    """Returns the ids of the entries that a worker without a batch may take now."""
    reserved = site.state.batches.reserved(site.name) if site.state is not None else frozenset()
    return [entry.id for entry in _claimable(site, pools, reserved)]


def _claimable(site: Site, pools: Collection[str] | None, reserved: Collection[int]) -> list[Entry]:
    """Returns the waiting entries that their table's mode does not leave to Hive's workers. The mode is read once per
    table."""
    ours: dict[tuple[str, str], bool] = {}
    waiting: list[Entry] = []
    for entry in site.metastore.entries.queue(states=(State.INITIATED,)):
        if entry.id in reserved or not (pools is None or (entry.pool or DEFAULT) in pools):
            continue
        table = (entry.entity.database, entry.entity.table)
        if table not in ours:
            ours[table] = is_ours(site, entry.entity)
        if ours[table]:
            waiting.append(entry)
    return waiting


def _item(site: Site, entry: Entry) -> Item | None:
    """Returns the entry with its size in bytes and its route. Without a route nothing is launched for it: the entry ends by
    the error, as it would in its worker."""
    try:
        with failing_alone(entry.entity):
            target = site.target(entry.entity, entry.properties)
            found = _route(site, entry, target)
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
    return Item(entry=entry, bytes=size, route=found)


def _route(site: Site, entry: Entry, target: Target) -> Route:
    """Returns the route that the settings give, with the pool's queue where they name none."""
    found = route(entry, target.settings, run_as=run_as(site, target))
    policy = policy_of(site, found.pool)
    return found if found.queue or policy is None else replace(found, queue=policy.queue)


def _register(site: Site, store: OwnState, found: StartableBatch) -> PlannedBatch:
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
    planned = store.batches.get(number)
    return PlannedBatch(
        batch_id=number,
        pool=r.pool,
        queue=r.queue,
        run_as=None if r.run_as == process_user() else r.run_as,
        conf=dict(r.conf),
        entries=len(batch.items),
        bytes=batch.bytes,
        job=_job(site, batch, number),
        resident=planned.resident,
        max_seconds=found.max_seconds,
        planned_at=planned.planned_at,
    )


def _job(site: Site, batch: RouteBatch, number: int) -> str:
    """Returns the application's name: a single compaction's is named as Hive names its job, others after the batch."""
    if len(batch.items) > 1:
        return f"{site.host}-compactor-{site.name}-{number}"
    e = batch.items[0].entry.entity
    return f"{site.host}-compactor-" + ".".join(name for name in (e.database, e.table, e.partition) if name is not None)
