"""The figures of a metastore as metrics, for Prometheus and other readers of its formats.

All are gauges with the label ``metastore``: values of now, or sums over the last days. If they cannot be read,
``compactor_up`` is 0 and the only gauge.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from compactor import __version__
from compactor.answers.alarms import Alarm
from compactor.answers.fleet import STEPS, Fleet, Returns, fleet
from compactor.answers.readings import Readings
from compactor.base.errors import CompactorError
from compactor.site.site import Site

log = logging.getLogger(__name__)
_MS = "_ms"

#: The readings that alarms are based on, by their names without the unit.
_READINGS: Mapping[str, str] = {
    "oldest_initiated": "Age of the oldest request that no worker has taken",
    "oldest_working": "Age of the compaction that has been worked on for the longest time",
    "oldest_ready_for_cleaning": "Age of the oldest result that waits for the cleaner",
    "oldest_open_txn": "Age of the oldest open transaction: nothing that it may read is cleaned",
    "oldest_aborted_txn": "Age of the oldest aborted transaction whose writes are not cleaned",
    "initiated": "Requests that no worker has taken",
    "working": "Compactions that are worked on",
    "ready_for_cleaning": "Results that wait for the cleaner",
    "overdue": "Compactions worked on for longer than hive.compactor.worker.timeout",
    "lost_out": "Tables and partitions whose last compaction lost worker after worker",
    "failed": "Failed compactions in the history",
    "failed_lately": "Compactions that failed within 7 days",
    "succeeded": "Successful compactions in the history",
    "open_transactions": "Open transactions",
    "aborted_transactions": "Aborted transactions whose writes are not cleaned",
    "most_aborted": "Aborted transactions of the table or partition that has most of them",
    "completed_txn_components": "Rows of COMPLETED_TXN_COMPONENTS",
    "txn_to_write_id": "Rows of TXN_TO_WRITE_ID",
    "worker_versions": "Versions of our workers within a day, or of Hive's, whichever are more",
    "disagreements": "Tables and partitions whose files and metastore contradict each other",
    "contradictions": "Contradictions between the database and the marks that are kept outside of it",
    "memory_away": "1 if the marks that are kept outside of the database cannot be read",
}
#: The metric of each sum of ``Returns``, and its meaning.
_RETURNS: Mapping[str, tuple[str, str]] = {
    "runs": ("compactor_runs", "Compactions"),
    "fewer_directories": ("compactor_runs_fewer_directories", "Directories fewer that readers read since the commits"),
    "fewer_files": ("compactor_runs_fewer_files", "Files fewer that readers read since the commits"),
    "removed_directories": ("compactor_removed_directories", "Directories that cleaners removed"),
    "removed_files": ("compactor_removed_files", "Files that cleaners removed"),
    "removed_bytes": ("compactor_removed_bytes", "Bytes that cleaners removed"),
    "bytes_moved": ("compactor_runs_bytes_moved", "Bytes that compactions read and wrote"),
    "seconds": ("compactor_runs_seconds", "Seconds that compactions took"),
    "core_seconds": ("compactor_runs_core_seconds", "Seconds of processor time that compactions took"),
    "opening": ("compactor_runs_opening", "Seconds less to open what was measured before and after"),
}


def metrics(site: Site) -> Iterator[GaugeMetricFamily]:
    """Reads the metastore as it is now, in a fixed number of statements, and yields its metrics."""
    overview = fleet(site)
    yield from _reading_gauges(site.name, overview.readings)
    yield _alarm_gauge(site.name, overview.alarms)
    yield from _fleet_gauges(site.name, overview)


class ReadMetrics(Collector):
    """Metrics that were read before."""

    def __init__(self, families: Iterable[GaugeMetricFamily]) -> None:
        self._families = tuple(families)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Returns the same metrics each time."""
        return self._families


def read_now(site: Site) -> ReadMetrics:
    """Reads all metrics.

    Raises:
        CompactorError: they cannot be read.
    """
    return ReadMetrics([_up_gauge(site.name, 1), *metrics(site)])


class MetastoreCollector(Collector):
    """Reads a metastore on each request for metrics, once for all requests at the same time.

    While a reading takes longer than ``patience`` seconds, other requests are answered that the metastore cannot be read.
    """

    def __init__(
        self, metastore: str, open_site: Callable[[], AbstractContextManager[Site]], *, patience: float = 10.0
    ) -> None:
        self._metastore = metastore
        self._open_site = open_site
        self._patience = patience
        self._lock = threading.Lock()
        self._started_at = float("-inf")  #: when the last reading began (monotonic)
        self._last: Iterable[GaugeMetricFamily] = ()

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Returns the metrics, or only ``compactor_up`` with 0 and a line in the log if they cannot be read."""
        asked_at = time.monotonic()
        if not self._lock.acquire(timeout=self._patience):
            log.warning("metrics of metastore %s: another reading takes long", self._metastore)
            return (_up_gauge(self._metastore, 0),)
        try:
            if self._started_at < asked_at:  # else the last reading began after this question
                self._started_at = time.monotonic()
                self._last = self._read()
            return self._last
        finally:
            self._lock.release()

    def _read(self) -> Iterable[GaugeMetricFamily]:
        try:
            with self._open_site() as site:
                return read_now(site).collect()
        except Exception as error:
            log.warning(
                "metrics of metastore %s cannot be read: %s",
                self._metastore,
                error,
                exc_info=not isinstance(error, CompactorError),
            )
            return (_up_gauge(self._metastore, 0),)


def registry_of(collector: Collector) -> CollectorRegistry:
    """Returns a registry of only ``collector``, without metrics of this process."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry


def _up_gauge(metastore: str, value: int) -> GaugeMetricFamily:
    family = GaugeMetricFamily("compactor_up", "1 if the metastore could be read", labels=("metastore", "version"))
    family.add_metric((metastore, __version__), value)
    return family


def _reading_gauges(metastore: str, readings: Readings) -> Iterator[GaugeMetricFamily]:
    for reading, value in readings.to_json().items():
        name = reading.removesuffix(_MS)
        is_age = name != reading
        yield _gauge(
            f"compactor_{name}{'_seconds' if is_age else ''}",
            _READINGS[name],
            metastore,
            value / 1000 if is_age else value,
        )


def _alarm_gauge(metastore: str, raised: Iterable[Alarm]) -> GaugeMetricFamily:
    family = GaugeMetricFamily("compactor_alarm", "1 for each alarm that holds", labels=("metastore", "name", "level"))
    for alarm in raised:
        family.add_metric((metastore, alarm.name, alarm.level.value), 1)
    return family


def _fleet_gauges(metastore: str, overview: Fleet) -> Iterator[GaugeMetricFamily]:
    yield _gauge("compactor_due", "Tables and partitions that are due for a compaction", metastore, overview.due)
    if overview.looked_at is not None:
        looked = "When the initiator last ended a pass, in seconds since 1970"
        yield _gauge("compactor_looked_at_seconds", looked, metastore, overview.looked_at / 1000)
    if overview.expected_seconds is not None:
        expected = "Seconds of work that wait, if they take as long as the newest runs"
        yield _gauge("compactor_expected_seconds", expected, metastore, overview.expected_seconds)
    yield _health_gauge(metastore, overview)
    yield from _returns_gauges(metastore, overview.returns)


def _health_gauge(metastore: str, overview: Fleet) -> GaugeMetricFamily:
    family = GaugeMetricFamily(
        "compactor_health", "Tables and partitions by their health", labels=("metastore", "database", "health")
    )
    for database, counts in overview.health.items():
        for number, step in enumerate(STEPS):
            family.add_metric((metastore, database, step), counts[number])
        family.add_metric((metastore, database, "unknown"), counts[None])
    return family


def _returns_gauges(metastore: str, periods: Iterable[Returns]) -> Iterator[GaugeMetricFamily]:
    returns = list(periods)
    for field, (name, meaning) in _RETURNS.items() if returns else ():
        family = GaugeMetricFamily(name, f"{meaning}, in the last days", labels=("metastore", "days"))
        for period in returns:
            family.add_metric((metastore, str(period.days)), getattr(period, field))
        yield family


def _gauge(name: str, meaning: str, metastore: str, value: float) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, meaning, labels=("metastore",))
    family.add_metric((metastore,), value)
    return family
