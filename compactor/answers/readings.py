"""The readings that alarms are based on, taken in a fixed number of statements; the database counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from compactor.base.errors import StorageError
from compactor.base.identities import is_compactor
from compactor.compaction.states import State
from compactor.initiator.candidate_scan import DISAGREEMENT
from compactor.site.lost_workers import WORKER_TIMEOUT
from compactor.site.restored_database import doubt_of
from compactor.site.site import Site
from compactor.state.runs import DAY_MS

LATELY_DAYS = 7  #: of which the failures are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The readings that alarms are based on. Ages in milliseconds, 0 if there is nothing of the kind."""

    oldest_initiated_ms: int = 0
    oldest_working_ms: int = 0
    oldest_ready_for_cleaning_ms: int = 0
    oldest_open_txn_ms: int = 0
    oldest_aborted_txn_ms: int = 0
    initiated: int = 0
    working: int = 0
    ready_for_cleaning: int = 0
    overdue: int = 0  #: worked on for longer than ``hive.compactor.worker.timeout``
    lost_out: int = 0  #: tables and partitions whose last compaction lost worker after worker
    failed: int = 0  #: in the history, including those that could not be initiated
    failed_lately: int = 0  #: within ``LATELY_DAYS``
    succeeded: int = 0  #: in the history
    open_transactions: int = 0
    aborted_transactions: int = 0
    most_aborted: int = 0  #: of one table or partition
    completed_txn_components: int = 0
    txn_to_write_id: int = 0
    worker_versions: int = 0  #: number of different ones within a day, of our workers or of Hive's, whichever have more
    disagreements: int = 0  #: tables and partitions whose files and metastore contradict each other
    contradictions: int = 0  #: between the database and its marks outside
    memory_away: int = 0  #: 1 if these marks cannot be read

    @property
    def ended(self) -> int:
        """The compactions with a result, cleaned or not, and those that failed."""
        return self.failed + self.succeeded + self.ready_for_cleaning

    @property
    def failed_ratio(self) -> float:
        """The share of failures among the compactions that have ended or wait for the cleaner."""
        return round(self.failed / self.ended, 4) if self.ended else 0.0

    def to_json(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


def take_readings(site: Site) -> Readings:
    """Reads the metastore as it is now."""
    return readings_of(site, {} if site.state is None else site.state.conditions.outcomes(site.name))


def readings_of(site: Site, outcomes: Mapping[str, int]) -> Readings:
    """Reads the metastore as it is now.

    ``outcomes`` are the numbers of tables and partitions by their last decision.
    """
    metastore, now = site.metastore, site.metastore.now_ms()
    queued = metastore.entries.count_queued()
    ended = metastore.entries.count_ended(now - LATELY_DAYS * DAY_MS, now - DAY_MS)
    versions = ended.worker_versions | metastore.entries.worker_versions(now - DAY_MS)
    opened, oldest_open = metastore.transactions.open_figures()
    aborts, counts = metastore.components.abort_figures(), metastore.housekeeping.counts()
    contradictions, memory_away = _check_memory(site)
    return Readings(
        oldest_initiated_ms=_age(now, _oldest_since(site, State.INITIATED, queued)),
        oldest_working_ms=_age(now, _oldest_since(site, State.WORKING, queued)),
        oldest_ready_for_cleaning_ms=_age(now, _oldest_since(site, State.READY_FOR_CLEANING, queued)),
        oldest_open_txn_ms=_age(now, oldest_open),
        oldest_aborted_txn_ms=_age(now, aborts.oldest_start),
        initiated=queued.get(State.INITIATED, 0),
        working=queued.get(State.WORKING, 0),
        ready_for_cleaning=queued.get(State.READY_FOR_CLEANING, 0),
        overdue=_count_overdue(site, now),
        lost_out=ended.lost_out,
        failed=ended.states.get(State.FAILED, 0) + ended.states.get(State.DID_NOT_INITIATE, 0),
        failed_lately=ended.failed_lately,
        succeeded=ended.states.get(State.SUCCEEDED, 0),
        open_transactions=opened,
        aborted_transactions=aborts.total,
        most_aborted=aborts.most,
        completed_txn_components=counts.completed_txn_components,
        txn_to_write_id=counts.txn_to_write_id,
        worker_versions=_count_versions(versions),
        disagreements=outcomes.get(DISAGREEMENT, 0),
        contradictions=contradictions,
        memory_away=memory_away,
    )


def _count_versions(versions: Collection[str]) -> int:
    """Counts the versions of one program: Hive's own workers have its version, and ours another one."""
    ours = sum(map(is_compactor, versions))
    return max(ours, len(versions) - ours)


def _check_memory(site: Site) -> tuple[int, int]:
    """Returns the number of contradictions, and 1 if the marks cannot be read."""
    try:
        doubt = doubt_of(site)
    except StorageError:
        return 0, 1
    return (0 if doubt is None else len(doubt.contradictions)), 0


def _oldest_since(site: Site, state: State, queued: Mapping[State, int]) -> int | None:
    """Returns since when the oldest row has been in that state (epoch ms); None if unknown."""
    entry = site.metastore.entries.oldest(state) if queued.get(state) else None
    if entry is None:
        return None
    if state is State.INITIATED:
        return entry.enqueue_time
    return entry.start if state is State.WORKING else entry.commit_time or entry.start


def _count_overdue(site: Site, now: int) -> int:
    timeout_ms = site.settings.milliseconds(WORKER_TIMEOUT)
    return site.metastore.entries.count_working_since(now - timeout_ms) if timeout_ms > 0 else 0


def _age(now: int, since: int | None) -> int:
    return 0 if since is None else max(0, now - since)
