"""The DataFrames of queries that live, so that the snapshots of others can be let go (PROTOCOL 13.8).

Spark does not tell when the last DataFrame of a plan has gone. But each DataFrame refers to its session, and one that is
made of it to the same one: a query gets a session object of its own, and its snapshot ends once that has gone.
"""

from __future__ import annotations

import copy
import logging
import queue
import threading
import weakref
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compactor.spark_tables.active_session import is_remote
from compactor.spark_tables.asking import asked
from compactor.spark_tables.data_source_options import sources_of
from compactor.spark_tables.frame_sources import KEY
from compactor.spark_tables.messages import Active
from compactor.spark_tables.snapshots import HiveAcidSnapshot
from compactor.spark_tables.statement_control import ask_keeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_MAKING = threading.Lock()
_WATCHES: dict[str, FrameWatch] = {}  #: by application
_ACTIVE_S = 60.0  #: between two looks whether Spark runs a job
_BUSY_S = 0.2  #: between two looks whether a job still reads what a DataFrame that has gone was to read
_LONGEST_S = 10.0  #: that a statement waits for such jobs: those of a stream never end


def session_of_query(spark: SparkSession) -> SparkSession:
    """Returns an object for the same session that only the DataFrames of one query refer to."""
    return copy.copy(spark)


def watch_of(spark: SparkSession) -> FrameWatch | None:
    """Returns what watches the DataFrames of an application, one for each; None by Spark Connect."""
    if is_remote(spark):
        return None
    application = spark.sparkContext.applicationId
    with _MAKING:
        if application not in _WATCHES:
            _WATCHES[application] = FrameWatch(spark)
        return _WATCHES[application]


@dataclass(frozen=True, slots=True)
class _Gone:
    """The snapshots of a query whose DataFrames have gone, and the metastore in which they are."""

    snapshots: frozenset[str]
    place: Mapping[str, str]


class FrameWatch:
    """Lets go of the snapshots of queries whose DataFrames have gone, and tells the keeper while Spark runs jobs. Its thread
    is the only one that asks: a DataFrame may go within any call."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        # it is filled while garbage is collected, perhaps by a thread that is using it
        self._gone: queue.SimpleQueue[_Gone | threading.Event] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="frames", daemon=True)
        self._thread.start()

    def watch(self, session: SparkSession, snapshots: Collection[str], place: Mapping[str, str]) -> None:
        """Lets go of ``snapshots`` once no DataFrame refers to ``session``, which ``session_of_query`` made."""
        weakref.finalize(session, self._gone.put, _Gone(frozenset(snapshots), place)).atexit = False

    def settle(self) -> None:
        """Waits until the snapshots of all DataFrames that have gone by now are let go, but for those that views or jobs
        still read."""
        settled = threading.Event()
        self._gone.put(settled)
        while self._thread.is_alive() and not settled.wait(_BUSY_S):
            pass

    def _run(self) -> None:
        waiting: list[_Gone] = []
        while self._spark.sparkContext._jsc is not None:
            settled: list[threading.Event] = []
            for each in self._next():
                (settled if isinstance(each, threading.Event) else waiting).append(each)  # type: ignore[arg-type]
            try:
                waiting = self._let_go(waiting) if waiting else []
                if not settled and self._runs_jobs():
                    ask_keeper(self._spark, {}, Active())
            except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on, and snapshots have an age
                log.info("the snapshots of DataFrames are held on: %s", error)
            for event in settled:
                event.set()

    def _next(self) -> list[_Gone | threading.Event]:
        """Returns all that has come, once something has; nothing after a while."""
        found = []
        with suppress(queue.Empty):
            found.append(self._gone.get(timeout=_ACTIVE_S))
            while True:
                found.append(self._gone.get_nowait())
        return found

    def _let_go(self, waiting: Sequence[_Gone]) -> list[_Gone]:
        """Lets go of what no job and no view reads, and returns the rest, which is tried again."""
        tries = int(_LONGEST_S / _BUSY_S)
        while self._runs_jobs():  # such as one whose rows are fetched one by one
            if not tries:
                return list(waiting)
            tries -= 1
            threading.Event().wait(_BUSY_S)
        of_views = self._of_views()
        for gone in waiting:
            for snapshot in gone.snapshots - of_views:
                try:
                    asked(
                        self._spark,
                        HiveAcidSnapshot.name(),
                        {**gone.place, "action": "release", "snapshot": snapshot},
                    )
                except Exception as error:  # noqa: BLE001 - such as of a metastore that is away: snapshots have an age
                    log.info("snapshot %s is held until its age: %s", snapshot, error)
        rest = [_Gone(gone.snapshots & of_views, gone.place) for gone in waiting]
        return [gone for gone in rest if gone.snapshots]

    def _runs_jobs(self) -> bool:
        return bool(self._spark.sparkContext.statusTracker().getActiveJobsIds())

    def _of_views(self) -> set[str]:
        """Returns the snapshots that temporary views read."""
        names = [table.name for table in self._spark.catalog.listTables() if table.isTemporary]
        snapshots: set[str] = set()
        for name in names:
            try:
                snapshots |= _snapshots(self._spark.table(name))
            except Exception:
                if self._spark.catalog.tableExists(name):
                    raise
        return snapshots


def _snapshots(frame: Any) -> set[str]:
    """Returns the snapshots of the tables that a DataFrame reads, those of its subqueries included."""
    plan = frame._jdf.queryExecution().analyzed()
    subqueries = plan.subqueriesAll()
    found: set[str] = set()
    for each in (plan, *(subqueries.apply(at) for at in range(subqueries.size()))):
        leaves = each.collectLeaves()
        for output in (leaves.apply(at).output() for at in range(leaves.size())):
            metadata = output.head().metadata() if output.size() else None
            if metadata is not None and metadata.contains(KEY):
                found |= {source.snapshot for source in sources_of(metadata.getString(KEY))}
    return found
