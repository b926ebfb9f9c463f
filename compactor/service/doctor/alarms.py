"""Alarms: a reading of the metastore, the limit it exceeds, and what to do (as in Hive's AcidMetricService).

``take_readings`` queries the metastore once; ``raised_alarms`` is pure. Metrics, notifiers and people get the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compactor.compaction.entry import Entry
from compactor.compaction.lost_count import lost_workers
from compactor.compaction.states import State
from compactor.errors import StorageError
from compactor.service.doctor.finding import Level
from compactor.service.lost_workers import WORKER_TIMEOUT
from compactor.service.memory import doubt_of
from compactor.service.roles.scan import DISAGREEMENT
from compactor.service.site import Site
from compactor.settings.precedence import Settings

_MANY_ABORTS = 1_500  #: aborted transactions of one table (Hive's tables-with-x-aborted-transactions)
_RECENTLY_MS = 24 * 3_600_000  #: more than one worker version within this time raises an alarm
_HOUR_MS = 3_600_000


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
    succeeded: int = 0  #: in the history
    open_transactions: int = 0
    aborted_transactions: int = 0
    most_aborted: int = 0  #: of one table or partition
    completed_txn_components: int = 0
    txn_to_write_id: int = 0
    worker_versions: int = 0  #: number of different ones, recently
    disagreements: int = 0  #: tables and partitions whose files and metastore contradict each other
    contradictions: int = 0  #: between the database and what is remembered of it outside
    memory_away: int = 0  #: 1 if that cannot be read

    @property
    def ended(self) -> int:
        return self.failed + self.succeeded

    @property
    def failed_ratio(self) -> float:
        """The share of failures among the compactions in the history."""
        return round(self.failed / self.ended, 4) if self.ended else 0.0

    def to_json(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One raised alarm: ``value`` of the reading ``reading`` is above ``limit``."""

    level: Level
    name: str
    reading: str
    value: float
    limit: float
    message: str
    fix: str

    def to_json(self) -> dict[str, object]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "level": self.level.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Raises an alarm when a reading is above a limit: the value of a setting, or a number where Hive has no setting."""

    name: str
    reading: str  #: its suffix gives the unit: ``_ms``, ``_ratio``, else a count
    warning: str | int
    error: str | int | None = None
    message: str  #: ``{value}`` is the reading as people write it, ``{found}`` all readings
    fix: str


_RULES = (
    _Rule(
        name="restored_metastore",
        reading="contradictions",
        warning=0,
        error=0,
        message="the metastore's database is older than what is remembered of it ({value} contradictions); nothing is "
        "timed out, compacted, removed or forgotten",
        fix="stop Hive's own compactor and cleaner, and look at compactor doctor; put the right database back, or compactor "
        "metastore agree",
    ),
    _Rule(
        name="memory_away",
        reading="memory_away",
        warning=0,
        error=0,
        message="what is remembered of the metastore outside of its database cannot be read; nothing is removed, timed out "
        "or forgotten",
        fix="make the store of compactor.memory answer; compactor doctor names the file or folder",
    ),
    _Rule(
        name="oldest_initiated_compaction",
        reading="oldest_initiated_ms",
        warning="hive.compactor.oldest.initiated.compaction.time.threshold.warning",
        error="hive.compactor.oldest.initiated.compaction.time.threshold.error",
        message="a request has waited for {value} and no worker has taken it",
        fix="make sure that a worker of its pool runs, and that the pool's hours include now: compactor show compactions",
    ),
    _Rule(
        name="oldest_uncleaned_compaction",
        reading="oldest_ready_for_cleaning_ms",
        warning="hive.compactor.oldest.uncleaned.compaction.time.threshold",
        message="a compaction has waited for {value} to be cleaned",
        fix="compactor show blockers shows the transactions that hold it; make sure that a cleaner runs",
    ),
    _Rule(
        name="oldest_open_transaction",
        reading="oldest_open_txn_ms",
        warning="hive.compactor.oldest.open.txn.threshold.warning",
        error="hive.compactor.oldest.open.txn.threshold.error",
        message="a transaction has been open for {value}; nothing it may read can be cleaned",
        fix="end its client, or compactor abort transaction ID: compactor show transactions",
    ),
    _Rule(
        name="oldest_uncleaned_abort",
        reading="oldest_aborted_txn_ms",
        warning="hive.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
        error="hive.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        message="the data of an aborted transaction has been there for {value}",
        fix="make sure that initiator and cleaner run, and that hive.compactor.aborted.txn.time.threshold is not off",
    ),
    _Rule(
        name="completed_txn_components",
        reading="completed_txn_components",
        warning="hive.compactor.completed.txn.components.record.threshold.warning",
        error="hive.compactor.completed.txn.components.record.threshold.error",
        message="COMPLETED_TXN_COMPONENTS has {value} rows",
        fix="make sure that a housekeeper runs; cleaned compactions remove rows",
    ),
    _Rule(
        name="txn_to_write_id",
        reading="txn_to_write_id",
        warning="hive.compactor.txn.to.writeid.record.threshold.warning",
        error="hive.compactor.txn.to.writeid.record.threshold.error",
        message="TXN_TO_WRITE_ID has {value} rows",
        fix="make sure that a housekeeper runs; an old open transaction keeps rows: compactor show transactions",
    ),
    _Rule(
        name="overdue_workers",
        reading="overdue",
        warning=0,
        message="{value} requests have been worked on for longer than hive.compactor.worker.timeout",
        fix="compactor show compactions names their workers; the next pass of our worker takes back those of lost ones, "
        "and compactor abort compaction ID ends one",
    ),
    _Rule(
        name="killed_workers",
        reading="lost_out",
        warning=0,
        message="the last compaction of {value} tables and partitions lost worker after worker, and is not tried again",
        fix="compactor show history names them; look in the workers' logs for what kills them, give them more memory, and "
        "request the compactions again",
    ),
    _Rule(
        name="failed_compaction_ratio",
        reading="failed_ratio",
        warning="hive.compactor.failed.compaction.ratio.threshold",
        message="{found.failed} of the {found.ended} compactions in the history failed or could not be initiated",
        fix="compactor show history shows why; compactor resume DB.TABLE once the cause is fixed",
    ),
    _Rule(
        name="tables_with_many_aborts",
        reading="most_aborted",
        warning=_MANY_ABORTS,
        message="one table or partition has {value} aborted transactions",
        fix="look for a writer that keeps failing; make sure that a cleaner runs",
    ),
    _Rule(
        name="disagreements",
        reading="disagreements",
        warning=0,
        error=0,
        message="files and metastore contradict each other in {value} tables and partitions, where nothing is done",
        fix="compactor doctor names them and compactor resolve DB.TABLE lists the directories; stop Hive's own compactor "
        "and cleaner until both agree",
    ),
    _Rule(
        name="mixed_worker_versions",
        reading="worker_versions",
        warning=1,
        message="workers of {value} different versions compacted within a day",
        fix="bring all workers to the same version, unless an upgrade is in progress",
    ),
)


def raised_alarms(found: Readings, settings: Settings) -> tuple[Alarm, ...]:
    """Returns the alarms that the readings raise, errors first."""
    holding = [alarm for rule in _RULES if (alarm := _raised(rule, found, settings)) is not None]
    return tuple(sorted(holding, key=lambda alarm: (alarm.level is not Level.FAIL, alarm.name)))


def _raised(rule: _Rule, found: Readings, settings: Settings) -> Alarm | None:
    value = getattr(found, rule.reading)
    for level, wanted in ((Level.FAIL, rule.error), (Level.WARN, rule.warning)):
        if wanted is None:
            continue
        limit = _limit(rule, wanted, settings)
        if value > limit:
            shown = f"{value / _HOUR_MS:.1f} hours" if rule.reading.endswith("_ms") else str(value)
            return Alarm(
                level=level,
                name=rule.name,
                reading=rule.reading,
                value=value,
                limit=limit,
                message=rule.message.format(value=shown, found=found),
                fix=rule.fix,
            )
    return None


def _limit(rule: _Rule, wanted: str | int, settings: Settings) -> float:
    if isinstance(wanted, int):
        return wanted
    if rule.reading.endswith("_ratio"):
        return settings.ratio(wanted)
    return settings.milliseconds(wanted) if rule.reading.endswith("_ms") else settings.integer(wanted)


def take_readings(site: Site) -> Readings:
    """Reads the metastore as it is now, in a fixed number of statements."""
    now = site.metastore.now_ms()
    queue, history = site.metastore.entries.queue(), site.metastore.entries.history()
    opened = site.metastore.transactions.open_transactions()
    aborts = site.metastore.candidates.aborts().values()
    counts = site.metastore.housekeeping.counts()
    contradictions, memory_away = _memory(site)
    by_state = {state: [e for e in queue if e.state is state] for state in State}
    recent = {e.worker_version for e in (*queue, *history) if e.worker_version and (e.start or 0) > now - _RECENTLY_MS}
    return Readings(
        oldest_initiated_ms=_oldest(now, (e.enqueue_time for e in by_state[State.INITIATED])),
        oldest_working_ms=_oldest(now, (e.start for e in by_state[State.WORKING])),
        oldest_ready_for_cleaning_ms=_oldest(now, map(_ready_since, by_state[State.READY_FOR_CLEANING])),
        oldest_open_txn_ms=_oldest(now, (t.started for t in opened)),
        oldest_aborted_txn_ms=_oldest(now, (a.oldest_start for a in aborts)),
        initiated=len(by_state[State.INITIATED]),
        working=len(by_state[State.WORKING]),
        ready_for_cleaning=len(by_state[State.READY_FOR_CLEANING]),
        overdue=_overdue(now, site.settings.milliseconds(WORKER_TIMEOUT), by_state[State.WORKING]),
        lost_out=_lost_out((*history, *by_state[State.READY_FOR_CLEANING])),
        failed=sum(e.state in (State.FAILED, State.DID_NOT_INITIATE) for e in history),
        succeeded=sum(e.state is State.SUCCEEDED for e in history),
        open_transactions=len(opened),
        aborted_transactions=sum(a.count for a in aborts),
        most_aborted=max((a.count for a in aborts), default=0),
        completed_txn_components=counts.completed_txn_components,
        txn_to_write_id=counts.txn_to_write_id,
        worker_versions=len(recent),
        disagreements=0 if site.state is None else site.state.conditions.outcomes(site.name).get(DISAGREEMENT, 0),
        contradictions=contradictions,
        memory_away=memory_away,
    )


def _memory(site: Site) -> tuple[int, int]:
    """Returns the contradictions, and 1 if the memory is away."""
    try:
        found = doubt_of(site)
    except StorageError:
        return 0, 1
    return (0 if found is None else len(found.contradictions)), 0


def _lost_out(ended: Iterable[Entry]) -> int:
    newest = {entry.entity: entry for entry in sorted(ended, key=lambda entry: entry.end or _ready_since(entry) or 0)}
    return sum(entry.state is State.FAILED and lost_workers(entry) > 0 for entry in newest.values())


def _overdue(now: int, timeout_ms: int, working: Iterable[Entry]) -> int:
    return sum(entry.start is not None and 0 < timeout_ms < now - entry.start for entry in working)


def _ready_since(entry: Entry) -> int | None:
    return entry.commit_time or entry.start


def _oldest(now: int, times: Iterable[int | None]) -> int:
    known = [time for time in times if time is not None]
    return max(0, now - min(known)) if known else 0
