"""Entries that wait for a worker: which of them are ours, claiming them, and ending them early."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace

from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.base.steps import Step, reach
from compactor.compaction.claim_order import AGEING, PRIORITY, Turn, order_turns
from compactor.compaction.queue_entry import Entity, Entry
from compactor.settings.precedence import Settings, with_request
from compactor.site.mode import Mode, may
from compactor.site.restored_database import must_be_newest
from compactor.site.site import VERSION, Site
from compactor.worker.compaction_phases import Claimed
from compactor.worker.ending import end

log = logging.getLogger(__name__)


def claim(site: Site, ids: Iterable[int]) -> list[Claimed]:
    """Claims each entry under its own worker id, which identifies it until it has recorded a transaction."""
    workers = {number: site.identity("worker") for number in ids}
    entries = site.metastore.claims.claim_all(workers, VERSION)
    reach(Step.CLAIMED)
    now = time.monotonic()
    return [Claimed(site=site, entry=entry, worker_id=workers[entry.id], started=now) for entry in entries]


def end_waiting(site: Site, entry_id: int, error: CompactorError) -> None:
    """Ends a waiting entry with an error from before any worker had it.

    Does nothing if it no longer waits.
    """
    must_be_newest(site)
    for member in claim(site, [entry_id]):
        end(member, error)


def take_turns(site: Site, entries: Iterable[Entry]) -> list[Turn]:
    """Returns entries in the order in which they are to be claimed, each with the reason of its place.

    Every worker and every planner of batches claims in this order. A table whose settings cannot be read has priority 0.
    """
    now, ageing_ms = site.metastore.now_ms(), site.settings.milliseconds(AGEING)
    settings_of_tables: dict[Entity, Settings] = {}
    turns = []
    for entry in entries:
        table = replace(entry.entity, partition=None)
        if table not in settings_of_tables:
            settings_of_tables[table] = _settings_or_sites(site, entry.entity)
        settings = settings_of_tables[table]
        if entry.properties:
            settings = with_request(settings, entry.properties, strict=False)
        turns.append(
            Turn(
                entry=entry,
                priority=settings.integer(PRIORITY),
                source=settings.source(PRIORITY),
                waited_ms=max(0, now - (entry.enqueue_time or now)),
                ageing_ms=max(1, ageing_ms),
            )
        )
    return order_turns(turns)


def _settings_or_sites(site: Site, entity: Entity) -> Settings:
    try:
        with failing_alone(entity):
            return site.settings_of(entity)
    except DatabaseUnavailable:
        raise
    except CompactorError as error:
        log.info("%s: has the site's priority, since its settings cannot be read: %s", entity, error)
        return site.settings


def is_ours(site: Site, entity: Entity) -> bool:
    """Returns true if the mode lets our workers compact ``entity``; false if its settings cannot be read."""
    try:
        with failing_alone(entity):
            return may(site.settings_of(entity), Mode.COMPACT)
    except DatabaseUnavailable:
        raise
    except CompactorError as error:
        log.warning("%s: is left alone: %s", entity, error)
        return False
