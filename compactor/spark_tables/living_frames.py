"""Releases the snapshot of a query once its last DataFrame is garbage (PROTOCOL 13.8).

Spark does not report when the last DataFrame of a plan is gone. But every DataFrame refers to its session object, and so do
all DataFrames derived from it. So each query gets its own session object, and its snapshot ends when that object is garbage.
"""

from __future__ import annotations

import copy
import logging
import queue
import threading
import time
import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compactor.spark_tables.data_source_options import SOURCES_KEY, parse_sources
from compactor.spark_tables.keeper_requests import Active
from compactor.spark_tables.keeper_sources import HiveAcidSnapshot
from compactor.spark_tables.program_session import is_remote, read_answer
from compactor.spark_tables.statement_control import ask_keeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_WATCHES_LOCK = threading.Lock()
_WATCHES: dict[str, FrameWatch] = {}  #: by application
_ACTIVE_S = 60.0  #: seconds between two checks whether Spark runs a job
_BUSY_S = 0.2  #: seconds between two checks whether a job may still read for a DataFrame that is gone
_LONGEST_S = 10.0  #: how long a statement waits for such jobs: those of a stream never end


def copy_session(spark: SparkSession) -> SparkSession:
    """Returns a new object for the same session, to which only the DataFrames of one query will refer."""
    return copy.copy(spark)


def frame_watch(spark: SparkSession) -> FrameWatch | None:
    """Returns the watch of the session's application, which is created once; None with Spark Connect."""
    if is_remote(spark):
        return None
    application = spark.sparkContext.applicationId
    with _WATCHES_LOCK:
        if application not in _WATCHES:
            _WATCHES[application] = FrameWatch(spark)
        return _WATCHES[application]


@dataclass(frozen=True, slots=True)
class _Gone:
    """The snapshots of a query whose DataFrames are gone, and their metastore."""

    snapshots: frozenset[str]
    place: Mapping[str, str]


class FrameWatch:
    """Releases snapshots of queries whose DataFrames are gone, and tells the keeper while Spark runs jobs.

    Only its thread sends requests, because a DataFrame may be collected within any call of any thread.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        # The garbage collector fills the queue, perhaps in a thread that is using it; SimpleQueue allows that.
        self._gone: queue.SimpleQueue[_Gone | threading.Event] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="frames", daemon=True)
        self._thread.start()

    def watch(self, session: SparkSession, snapshots: Collection[str], place: Mapping[str, str]) -> None:
        """Releases ``snapshots`` once no DataFrame refers to ``session``, which ``copy_session`` returned."""
        weakref.finalize(session, self._gone.put, _Gone(frozenset(snapshots), place)).atexit = False

    def settle(self) -> None:
        """Waits until the snapshots of all DataFrames that are gone by now are released.

        Snapshots that views or jobs still read are not waited for.
        """
        settled = threading.Event()
        self._gone.put(settled)
        while self._thread.is_alive() and not settled.wait(_BUSY_S):
            pass

    def _run(self) -> None:
        waiting: list[_Gone] = []
        while self._spark.sparkContext._jsc is not None:
            settled: list[threading.Event] = []
            for item in self._take_queued():
                (settled if isinstance(item, threading.Event) else waiting).append(item)  # type: ignore[arg-type]
            try:
                waiting = self._release(waiting) if waiting else []
                if not settled and self._runs_jobs():
                    ask_keeper(self._spark, {}, Active())
            except Exception as error:  # noqa: BLE001 - the program must go on; snapshots expire after a while
                log.info("snapshots of DataFrames are not released yet: %s", error)
            for event in settled:
                event.set()

    def _take_queued(self) -> list[_Gone | threading.Event]:
        """Waits for an item and returns all that are queued; returns an empty list after a while."""
        items = []
        with suppress(queue.Empty):
            items.append(self._gone.get(timeout=_ACTIVE_S))
            while True:
                items.append(self._gone.get_nowait())
        return items

    def _release(self, waiting: Sequence[_Gone]) -> list[_Gone]:
        """Releases snapshots that no job and no view reads; returns the others, to try again later."""
        tries = int(_LONGEST_S / _BUSY_S)
        while self._runs_jobs():  # for example a job whose rows are fetched one by one
            if not tries:
                return list(waiting)
            tries -= 1
            time.sleep(_BUSY_S)
        read_by_views = self._snapshots_of_views()
        for gone in waiting:
            for snapshot in gone.snapshots - read_by_views:
                try:
                    read_answer(
                        self._spark,
                        HiveAcidSnapshot.name(),
                        {**gone.place, "action": "release", "snapshot": snapshot},
                    )
                except Exception as error:  # noqa: BLE001 - the metastore may be unreachable; the snapshot expires
                    log.info("snapshot %s stays until it expires: %s", snapshot, error)
        remaining = [_Gone(gone.snapshots & read_by_views, gone.place) for gone in waiting]
        return [gone for gone in remaining if gone.snapshots]

    def _runs_jobs(self) -> bool:
        return bool(self._spark.sparkContext.statusTracker().getActiveJobsIds())

    def _snapshots_of_views(self) -> set[str]:
        """Returns the snapshots that temporary views read."""
        names = [table.name for table in self._spark.catalog.listTables() if table.isTemporary]
        snapshots: set[str] = set()
        for name in names:
            try:
                snapshots |= _snapshots_of_frame(self._spark.table(name))
            except Exception:
                if self._spark.catalog.tableExists(name):
                    raise
        return snapshots


def _snapshots_of_frame(frame: Any) -> set[str]:
    """Returns the snapshots of the tables that a DataFrame reads, including its subqueries."""
    plan = frame._jdf.queryExecution().analyzed()
    subqueries = plan.subqueriesAll()
    snapshots: set[str] = set()
    for part in (plan, *(subqueries.apply(at) for at in range(subqueries.size()))):
        leaves = part.collectLeaves()
        for output in (leaves.apply(at).output() for at in range(leaves.size())):
            metadata = output.head().metadata() if output.size() else None
            if metadata is not None and metadata.contains(SOURCES_KEY):
                snapshots |= {source.snapshot for source in parse_sources(metadata.getString(SOURCES_KEY))}
    return snapshots
