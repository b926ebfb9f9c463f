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
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from compactor.spark_tables.active_session import is_remote
from compactor.spark_tables.asking import asked
from compactor.spark_tables.frame_sources import KEY
from compactor.spark_tables.messages import Active
from compactor.spark_tables.options import sources_of
from compactor.spark_tables.snapshots import HiveAcidSnapshot
from compactor.spark_tables.statement_control import ask_keeper

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)
_MAKING = threading.Lock()
_WATCHES: dict[str, FrameWatch] = {}  #: by application
_ACTIVE_S = 60.0  #: between two looks whether Spark runs a job
_BUSY_S = 2.0  #: between two looks whether a job still reads what a DataFrame that has gone was to read


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


class FrameWatch:
    """Lets go of the snapshots of queries whose DataFrames have gone, and tells the keeper while Spark runs jobs. Its thread
    is the only one that asks: a DataFrame may go within any call."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._gone: queue.Queue[tuple[frozenset[str], Mapping[str, str]]] = queue.Queue()
        threading.Thread(target=self._run, name="frames", daemon=True).start()

    def watch(self, session: SparkSession, snapshots: Collection[str], place: Mapping[str, str]) -> None:
        """Lets go of ``snapshots`` once no DataFrame refers to ``session``, which ``session_of_query`` made."""
        weakref.finalize(session, self._gone.put, (frozenset(snapshots), place)).atexit = False

    def settle(self) -> None:
        """Waits until the snapshots of all DataFrames that have gone by now are let go."""
        self._gone.join()

    def _run(self) -> None:
        while self._spark.sparkContext._jsc is not None:
            try:
                gone = self._gone.get(timeout=_ACTIVE_S)
            except queue.Empty:
                gone = None
            try:
                if gone is not None:
                    self._let_go(*gone)
                elif self._runs_jobs():
                    ask_keeper(self._spark, {}, Active())
            except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on, and snapshots have an age
                log.info("the snapshots of DataFrames are held on: %s", error)
            finally:
                if gone is not None:
                    self._gone.task_done()

    def _let_go(self, snapshots: Collection[str], place: Mapping[str, str]) -> None:
        while self._runs_jobs():  # such as one whose rows are fetched one by one
            threading.Event().wait(_BUSY_S)
        for snapshot in set(snapshots) - self._of_views():
            asked(self._spark, HiveAcidSnapshot.name(), {**place, "action": "release", "snapshot": snapshot})

    def _runs_jobs(self) -> bool:
        return bool(self._spark.sparkContext.statusTracker().getActiveJobsIds())

    def _of_views(self) -> set[str]:
        """Returns the snapshots that temporary views read."""
        names = [table.name for table in self._spark.catalog.listTables() if table.isTemporary]
        return {snapshot for name in names for snapshot in _snapshots(self._spark.table(name))}


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
