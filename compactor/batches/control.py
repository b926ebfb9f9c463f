"""Controls a batch from outside its driver: reads its status, gives it back, ends or replans it.

Nothing is sent to the driver, so this works with every cluster manager. The driver learns from our state and the queue that
it is no longer needed.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Mapping
from dataclasses import dataclass

from compactor.base.errors import CompactorError, NotFound
from compactor.base.identities import HolderProcess
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.site import lost_workers
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, own_state
from compactor.state.batches import Batch, BatchState

log = logging.getLogger(__name__)
_OPEN = (State.INITIATED, State.WORKING)  #: states of an entry that the batch has not finished


class BatchStatus(enum.Enum):
    """The status of a batch. The values are sentences for people."""

    WAITS = "nobody has launched it"
    UNDER_WAY = "launched, given to a resident, or registered by its driver"
    LOST = "its reservation expired without a word from its driver"
    RELEASED = "it was given back before its driver ended"
    ENDED = "its driver has ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWithEntries:
    """A batch and its planned entries, without entries that are no longer in the history."""

    batch: Batch
    entries: Mapping[int, Entry]

    @property
    def status(self) -> BatchStatus:
        batch = self.batch
        if batch.state is BatchState.DONE:
            return BatchStatus.ENDED
        if batch.state is BatchState.RELEASED:
            return BatchStatus.RELEASED
        if batch.state is BatchState.PLANNED and batch.application_id is None and batch.resident is None:
            return BatchStatus.WAITS
        return BatchStatus.UNDER_WAY if batch.reserved_until > batch.read_at else BatchStatus.LOST

    @property
    def open_entries(self) -> tuple[Entry, ...]:
        """The entries that are queued or under way."""
        return tuple(entry for entry in self.entries.values() if entry.state in _OPEN)

    @property
    def failed_entries(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries.values() if entry.state is State.FAILED)


def read_batch(site: Site, batch_id: int) -> BatchWithEntries:
    """Returns the current state of a batch.

    Raises:
        NotFound: the batch does not exist.
    """
    batch = own_state(site).batches.get(batch_id)
    entries: dict[int, Entry] = {}
    for entry_id in batch.entry_ids:
        try:
            entries[entry_id] = site.metastore.entries.get(entry_id)
        except NotFound:
            continue
    return BatchWithEntries(batch=batch, entries=entries)


def record_launch(site: Site, batch_id: int, application_id: str) -> None:
    """Records the application's name for its launcher, and renews the reservation while it starts."""
    reserved_ms = site.settings.milliseconds("compactor.batch.reserved")
    own_state(site).batches.set_application(batch_id, application_id, reserved_ms)


def record_task(site: Site, batch_id: int, url: str) -> None:
    """Records the scheduler's page of the task that has the batch."""
    own_state(site).batches.set_task(batch_id, url)


def release_batch(site: Site, batch_id: int, because: str) -> None:
    """Gives the batch back: its driver begins no further entry and can no longer commit entries under way.

    The entries stay requested. The next pass queues entries that were under way once their transaction is aborted and
    their staged files are removed (PROTOCOL 6).

    Raises:
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
    """
    must_be_newest(site)
    batch = read_batch(site, batch_id)
    own_state(site).batches.release(batch_id)
    for entry in _list_driver_entries(batch):
        if entry.txn_id is not None and lost_workers.abort_and_hide(site, entry, entry.txn_id, because):
            log.info("batch %d: compaction %d of %s is given back: %s", batch_id, entry.id, entry.entity, because)


def end_batch(site: Site, batch_id: int) -> list[Entry]:
    """Ends the batch, and returns its open entries, for the caller to abort.

    Entries of another worker are left out.
    """
    batch = read_batch(site, batch_id)
    own_state(site).batches.release(batch_id)
    driver_ids = {entry.id for entry in _list_driver_entries(batch)}
    return [entry for entry in batch.open_entries if entry.state is not State.WORKING or entry.id in driver_ids]


def replan_batch(site: Site, batch_id: int) -> bool:
    """Plans the batch again. Returns false if it is reserved, or if no entry of it still waits."""
    reserved_ms = site.settings.milliseconds("compactor.batch.reserved")
    return own_state(site).batches.renew(batch_id, reserved_ms)


def free_for_next_attempt(site: Site, batch_id: int, application_id: str) -> None:
    """Plans an application's batch again for its next attempt.

    The former driver is gone and can no longer commit.

    Does nothing if the batch belongs to another application, is done, or has no open entry.

    Raises:
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
    """
    batch = read_batch(site, batch_id)
    is_over = batch.batch.state in (BatchState.DONE, BatchState.PLANNED) or not batch.open_entries
    if is_over or batch.batch.application_id != application_id:
        return
    release_batch(site, batch_id, f"the former driver of {application_id} is gone")
    if replan_batch(site, batch_id):
        log.info("batch %d: the next attempt of %s takes it over", batch_id, application_id)


def must_not_have_failed(site: Site, batch_id: int) -> None:
    """Checks that no entry of the batch has failed.

    Raises:
        CompactorError: an entry has failed; the message contains the error of each failed entry.
    """
    failed = read_batch(site, batch_id).failed_entries
    if failed:
        raise CompactorError("; ".join(f"compaction {e.id} of {e.entity} failed: {e.error}" for e in failed))


def _list_driver_entries(batch: BatchWithEntries) -> tuple[Entry, ...]:
    """Returns the entries on which the batch's driver works.

    A worker's id contains the driver's host and process.
    """
    driver = batch.batch.driver
    process = None if driver is None else HolderProcess.from_id(driver)
    if process is None:
        return ()
    return tuple(
        entry
        for entry in batch.open_entries
        if entry.state is State.WORKING and HolderProcess.from_id(entry.worker_id or "", "worker") == process
    )
