"""Puts waiting requests into the order in which workers and planners claim them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.compaction.claim_order import AGEING, PRIORITY, Turn, order_turns
from compactor.compaction.queue_entry import Entity, Entry
from compactor.settings.precedence import Settings, with_request
from compactor.site.site import Site

log = logging.getLogger(__name__)


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
