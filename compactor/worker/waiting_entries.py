"""Entries that wait for a worker: which of them are ours, claiming them, and ending them early."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from compactor.base.errors import CompactorError, DatabaseUnavailable, failing_alone
from compactor.base.steps import Step, reach
from compactor.compaction.queue_entry import Entity
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
