"""Alarms: readings of the metastore above a limit, and what to do (as Hive's AcidMetricService). Pure.

Metrics, notifiers, the overview and people get the same alarms.
"""

from __future__ import annotations

from dataclasses import dataclass

from compactor.answers.readings import Readings
from compactor.settings.precedence import Settings
from compactor.site.finding import Level

_MANY_ABORTS = 1_500  #: aborted transactions of one table (Hive's tables-with-x-aborted-transactions)
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """One raised alarm: ``value`` of the reading ``reading`` is above ``limit``.

    ``view`` is the page's address for the rows that raise the alarm. It is None if the page does not show them.
    """

    level: Level
    name: str
    reading: str
    value: float
    limit: float
    message: str
    fix: str
    view: str | None = None

    def to_json(self) -> dict[str, object]:
        values = {name: getattr(self, name) for name in self.__slots__}
        return {**values, "level": self.level.value}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """Raises an alarm when a reading is above a limit.

    The limit is the value of a setting, or a number where Hive has no setting.
    """

    name: str
    reading: str  #: its suffix gives the unit: ``_ms``, ``_ratio``, else a count
    warning: str | int
    error: str | int | None = None
    message: str  #: ``{value}`` is the reading as people write it, ``{readings}`` all readings
    fix: str
    view: str | None = None


_RULES = (
    _Rule(
        name="restored_metastore",
        reading="contradictions",
        warning=0,
        error=0,
        message="the metastore's database is older than the marks that are kept outside of it ({value} contradictions); "
        "nothing is timed out, compacted, removed or forgotten",
        fix="stop Hive's own compactor and cleaner, and look at compactor doctor; put the right database back, or compactor "
        "metastore agree",
    ),
    _Rule(
        name="memory_away",
        reading="memory_away",
        warning=0,
        error=0,
        message="the marks that are kept outside of the metastore's database cannot be read; nothing is removed, timed out "
        "or forgotten",
        fix="make the store of compactor.memory answer; compactor doctor names the file or folder",
    ),
    _Rule(
        name="oldest_initiated_compaction",
        reading="oldest_initiated_ms",
        view="queue?state=initiated",
        warning="hive.compactor.oldest.initiated.compaction.time.threshold.warning",
        error="hive.compactor.oldest.initiated.compaction.time.threshold.error",
        message="a request has waited for {value} and no worker has taken it",
        fix="make sure that a worker of its pool runs, and that the pool's hours include now: compactor show compactions",
    ),
    _Rule(
        name="oldest_uncleaned_compaction",
        reading="oldest_ready_for_cleaning_ms",
        view="queue?state=ready+for+cleaning",
        warning="hive.compactor.oldest.uncleaned.compaction.time.threshold",
        message="a compaction has waited for {value} to be cleaned",
        fix="compactor show blockers shows the transactions that hold it; make sure that a cleaner runs",
    ),
    _Rule(
        name="oldest_open_transaction",
        reading="oldest_open_txn_ms",
        view="blocked",
        warning="hive.compactor.oldest.open.txn.threshold.warning",
        error="hive.compactor.oldest.open.txn.threshold.error",
        message="a transaction has been open for {value}; nothing it may read can be cleaned",
        fix="end its client, or compactor abort transaction ID: compactor show transactions",
    ),
    _Rule(
        name="oldest_uncleaned_abort",
        reading="oldest_aborted_txn_ms",
        view="tables?order=aborts&descending=true",
        warning="hive.compactor.oldest.uncleaned.aborted.txn.time.threshold.warning",
        error="hive.compactor.oldest.uncleaned.aborted.txn.time.threshold.error",
        message="the data of an aborted transaction has waited for {value} to be removed",
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
        view="queue?state=working",
        warning=0,
        message="{value} requests have been worked on for longer than hive.compactor.worker.timeout",
        fix="compactor show compactions names their workers; the next pass of our worker takes back those of lost ones, "
        "and compactor abort compaction ID ends one",
    ),
    _Rule(
        name="killed_workers",
        reading="lost_out",
        view="history?state=failed",
        warning=0,
        message="the last compaction of {value} tables and partitions lost worker after worker, and is not tried again",
        fix="compactor show history names them; look in the workers' logs for what kills them, give them more memory, and "
        "request the compactions again",
    ),
    _Rule(
        name="failed_compaction_ratio",
        reading="failed_ratio",
        view="history?state=failed",
        warning="hive.compactor.failed.compaction.ratio.threshold",
        message="{readings.failed} of the {readings.ended} compactions failed or could not be initiated",
        fix="compactor show history shows why; compactor resume DB.TABLE once the cause is fixed",
    ),
    _Rule(
        name="tables_with_many_aborts",
        reading="most_aborted",
        view="tables?order=aborts&descending=true",
        warning=_MANY_ABORTS,
        message="one table or partition has {value} aborted transactions",
        fix="look for a writer that keeps failing; make sure that a cleaner runs",
    ),
    _Rule(
        name="disagreements",
        reading="disagreements",
        view="tables?outcome=error",
        warning=0,
        error=0,
        message="files and metastore contradict each other in {value} tables and partitions; nothing is compacted or "
        "removed there",
        fix="compactor doctor names them and compactor resolve DB.TABLE lists the directories; stop Hive's own compactor "
        "and cleaner until both agree",
    ),
    _Rule(
        name="mixed_worker_versions",
        reading="worker_versions",
        view="history",
        warning=1,
        message="workers of {value} different versions of one program compacted within a day",
        fix="bring all workers to the same version, unless an upgrade is in progress",
    ),
)


def raised_alarms(readings: Readings, settings: Settings) -> tuple[Alarm, ...]:
    """Returns the alarms that the readings raise, errors first."""
    alarms = [alarm for rule in _RULES if (alarm := _check_rule(rule, readings, settings)) is not None]
    return tuple(sorted(alarms, key=lambda alarm: (alarm.level is not Level.FAIL, alarm.name)))


def _check_rule(rule: _Rule, readings: Readings, settings: Settings) -> Alarm | None:
    value = getattr(readings, rule.reading)
    for level, threshold in ((Level.FAIL, rule.error), (Level.WARN, rule.warning)):
        if threshold is None:
            continue
        limit = _resolve_limit(rule, threshold, settings)
        if value > limit:
            shown = f"{value / _HOUR_MS:.1f} hours" if rule.reading.endswith("_ms") else str(value)
            return Alarm(
                level=level,
                name=rule.name,
                reading=rule.reading,
                value=value,
                limit=limit,
                message=rule.message.format(value=shown, readings=readings),
                fix=rule.fix,
                view=rule.view,
            )
    return None


def _resolve_limit(rule: _Rule, threshold: str | int, settings: Settings) -> float:
    if isinstance(threshold, int):
        return threshold
    if rule.reading.endswith("_ratio"):
        return settings.ratio(threshold)
    return settings.milliseconds(threshold) if rule.reading.endswith("_ms") else settings.integer(threshold)
