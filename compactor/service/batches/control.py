"""A batch seen from outside of its driver: how it stands, and how it is given back or aborted.

The driver is never spoken to. It learns from the rows of our state and of the queue that it is not wanted any more,
whatever cluster manager started it.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.errors import NotFound, Refused
from compactor.service import repair
from compactor.service.batches.batch import own_state
from compactor.service.requests.abort import abort_compaction
from compactor.service.site import Site
from compactor.state.batches import Batch, BatchState

log = logging.getLogger(__name__)
#: States that nobody of us will lead any further in this batch.
_OPEN = (State.INITIATED, State.WORKING)


class Stand(enum.Enum):
    """How a batch stands."""

    WAITS = "nobody has launched it"
    UNDER_WAY = "launched, given to a resident, or registered by its driver"
    LOST = "its reservation has ended without a word of its driver"
    RELEASED = "it was given back before its driver ended"
    ENDED = "its driver has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A batch and the entries that it was planned with; an entry that the history has dropped is left out."""

    batch: Batch
    entries: Mapping[int, Entry]

    @property
    def stand(self) -> Stand:
        batch = self.batch
        if batch.state is BatchState.DONE:
            return Stand.ENDED
        if batch.state is BatchState.RELEASED:
            return Stand.RELEASED
        if batch.state is BatchState.PLANNED and batch.application_id is None and batch.resident is None:
            return Stand.WAITS
        return Stand.UNDER_WAY if batch.reserved_until > batch.read_at else Stand.LOST

    @property
    def open_entries(self) -> tuple[Entry, ...]:
        """Those that are queued or worked on."""
        return tuple(entry for entry in self.entries.values() if entry.state in _OPEN)

    @property
    def failed_entries(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries.values() if entry.state is State.FAILED)


def standing(site: Site, batch_id: int) -> Standing:
    """How the batch stands now.

    Raises:
        NotFound: there is no such batch.
    """
    batch = own_state(site).batches.get(batch_id)
    entries: dict[int, Entry] = {}
    for entry_id in batch.entry_ids:
        try:
            entries[entry_id] = site.metastore.compactions.entry(entry_id)
        except NotFound:
            continue
    return Standing(batch=batch, entries=entries)


def launched(site: Site, batch_id: int, application_id: str) -> None:
    """Remember under which name the launcher finds the application again; the batch is reserved anew for its start."""
    reserved_ms = site.settings.milliseconds("compactor.batch.reserved")
    own_state(site).batches.set_application(batch_id, application_id, reserved_ms)


def release(site: Site, batch_id: int, because: str) -> None:
    """Give the batch back: its driver begins no further entry, and what he is at cannot commit any more.

    The entries stay requested. Those that were worked on are queued again by the next pass, once their transaction is
    seen to be aborted and what they staged is removed (PROTOCOL 6).
    """
    held = standing(site, batch_id)
    own_state(site).batches.release(batch_id)
    for entry in _his(held):
        if entry.txn_id is not None and repair.give_up(site, entry, entry.txn_id, because):
            log.info("batch %d: compaction %d of %s is given back: %s", batch_id, entry.id, entry.entity, because)


def abort(site: Site, batch_id: int) -> tuple[Entry, ...]:
    """End the batch and the requests in it that are not compacted yet, as ``compactor abort compaction`` does.

    Returns:
        The entries as they are then, without those that had ended before.
    """
    held = standing(site, batch_id)
    own_state(site).batches.release(batch_id)
    his = {entry.id for entry in _his(held)}
    ended = []
    for entry in held.open_entries:
        if entry.state is State.WORKING and entry.id not in his:
            continue
        try:
            ended.append(abort_compaction(site, entry.id))
        except Refused as refused:  # it committed meanwhile, or is gone
            log.info("batch %d: compaction %d is left as it is: %s", batch_id, entry.id, refused)
    return tuple(ended)


def renew(site: Site, batch_id: int) -> bool:
    """Plan the batch again; False where it is reserved, or where nothing of it waits any more."""
    reserved_ms = site.settings.milliseconds("compactor.batch.reserved")
    return own_state(site).batches.renew(batch_id, reserved_ms)


def _his(held: Standing) -> tuple[Entry, ...]:
    """Entries that the driver of the batch works on: workers bear his host and process in their name."""
    driver = held.batch.driver
    if driver is None:
        return ()
    process = driver.removeprefix("compactor-driver-").rpartition("-")[0]
    return tuple(
        entry
        for entry in held.open_entries
        if entry.state is State.WORKING and (entry.worker_id or "").startswith(f"compactor-worker-{process}-")
    )
