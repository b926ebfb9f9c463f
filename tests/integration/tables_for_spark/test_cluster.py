"""Writes and changes on a standalone cluster of two hosts: slow tasks, lost executors, a killed driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from compactor.spark_tables import AcidTable, Changed
from compactor.spark_tables.driver_jvm import find_driver, find_process
from compactor.spark_tables.keeper_folder import Folder
from compactor.tables import Store
from tests.integration.tables_for_spark.conftest import hidden, keeper_of, rows_of
from tests.support.patience import PATIENCE, until
from tests.support.spark_cluster import standalone
from tests.support.spark_sessions import ROOT, local_session, pid_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]
_SMALL = {"spark.executor.memory": "512m", "spark.testing.reservedMemory": "0"}
_SPECULATING = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.minTaskRuntime": "1ms",
    "spark.speculation.task.duration.threshold": "1s",  # for a stage of one task
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all that the cluster's processes write."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def master(cluster: Path) -> Iterator[str]:
    with standalone(cluster, environment={"PYTHONPATH": str(ROOT)}) as address:
        yield address


@pytest.fixture(scope="module")
def spark(master: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with an executor on each host, which runs a slow task a second time on the other one."""
    folder = tmp_path_factory.mktemp("spark")
    more = {"spark.checkpoint.dir": str(folder / "checkpoints")}
    with local_session(folder, master, {**_SMALL, **_SPECULATING, **more}) as session:
        yield session
        jvm = find_process(pid_of(session))
    until("the end of the keeper", lambda: keeper_of(Folder(jvm)) is None)


class Twice:
    """Makes one task of a job so slow that Spark runs it twice, and lets both attempts go on at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)

    def __call__(self) -> None:
        """Waits, within a task, for the other attempt."""
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        own, other = (
            os.path.join(self._folder, f"attempt{n}") for n in (task.attemptNumber(), 1 - task.attemptNumber())
        )
        Path(own).touch()
        end = time.monotonic() + PATIENCE
        while not os.path.exists(other) and time.monotonic() < end:
            time.sleep(0.02)

    @property
    def happened(self) -> bool:
        return sorted(os.listdir(self._folder)) == ["attempt0", "attempt1"]


class Kill:
    """Kills the executor of a task, once."""

    def __init__(self, folder: Path) -> None:
        self._mark = str(folder / "mark")

    def __call__(self) -> None:
        """Kills the JVM above the task."""
        if not os.path.exists(self._mark):
            Path(self._mark).touch()
            os.kill(find_driver().pid, signal.SIGKILL)

    @property
    def happened(self) -> bool:
        return os.path.exists(self._mark)


@pytest.fixture(params=[Twice, Kill], ids=["speculation", "executor-loss"])
def accident(request: pytest.FixtureRequest, tmp_path: Path) -> Twice | Kill:
    folder = tmp_path / "accident"
    folder.mkdir()
    found: Twice | Kill = request.param(folder)
    return found


def values_of(store: Store, name: str) -> dict[int, int]:
    rows = store.load_table(name).scan().to_arrow().to_pylist()
    assert len({row["i"] for row in rows}) == len(rows)
    return {row["i"]: row["v"] for row in rows}


_DRIVER = """
import sys
from pathlib import Path
from tests.support.spark_sessions import local_session

def slow(batches):
    import time
    for batch in batches:
        for number in range(100_000):
            yield batch
            Path({mark!r}).touch()
            time.sleep(0.01)

with local_session(Path({folder!r}), {master!r}, {conf!r}) as session:
    frame = session.range(0, 100, 1, 2).selectExpr("id as i").mapInArrow(slow, "i long")
    frame.write.format("hive_acid").options(table="db.t", config={config!r}).mode("append").save()
"""


def test_executors_that_write_on_without_their_driver_leave_nothing(
    master: str,
    cluster: Path,
    tmp_path: Path,
    config: str,
    store: Store,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    """TABLES rule 10: the keeper ends the transaction and sweeps, though executors on other hosts live a little longer."""
    mark = tmp_path / "mark"
    code = _DRIVER.format(mark=str(mark), folder=str(tmp_path), config=config, master=master, conf=_SMALL)
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, start_new_session=True) as started:
        until("a task that has written rows", mark.exists)
        assert len(open_agents()) == 1
        os.killpg(started.pid, signal.SIGKILL)
    until("the end of its transaction", lambda: open_agents() == [])
    until("no staging directory", lambda: hidden(warehouse) == [])
    assert rows_of(store) == [1, 2, 3]
    until("the end of its executors", lambda: not executors_of(cluster))
    assert hidden(warehouse) == []


def staged(warehouse: Path) -> Iterator[Path]:
    """Yields the files that executors have begun; they may go at any time."""
    with suppress(FileNotFoundError):
        for directory in hidden(warehouse):
            yield from (path for path in directory.rglob("*") if path.is_file())


def executors_of(cluster: Path) -> list[int]:
    """Returns the JVMs of executors, which work in folders of their workers."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"CoarseGrainedExecutorBackend" in (path / "cmdline").read_bytes() and (
                path / "cwd"
            ).readlink().is_relative_to(cluster):
                found.append(int(path.name))
    return found


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_write_is_there_once(
    spark: SparkSession, store: Store, config: str, warehouse: Path, accident: Twice | Kill, mode: str
) -> None:
    """TABLES rule 14: the driver takes one attempt's files of each task, and what others staged goes."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 1:
            accident()

    store.create_table("db.once", {"i": "bigint"}).append(pa.table({"i": [-1]}))
    frame = spark.range(0, 4000, 1, 4).selectExpr("id as i").mapInArrow(rows, "i long")
    frame.write.format("hive_acid").options(table="db.once", config=config).mode(mode).save()
    assert accident.happened
    assert rows_of(store, "db.once") == [*([-1] if mode == "append" else []), *range(4000)]
    until("no staging directory", lambda: hidden(warehouse) == [])


def test_rows_are_changed_once(
    spark: SparkSession, store: Store, config: str, warehouse: Path, accident: Twice | Kill
) -> None:
    """TABLES rules 13 and 14, where the tasks that make new values run twice or are lost."""
    from pyspark.sql.functions import udf

    def plus_one(value: int) -> int:
        if value == 150:
            accident()
        return value + 1

    table = store.create_table("db.again", {"i": "bigint", "v": "int"}, clustered_by=(["i"], 4))
    table.append(pa.table({"i": list(range(200)), "v": [0] * 200}))
    again = AcidTable.for_name(spark, "db.again", config=config)
    assert again.update(set={"v": udf(plus_one, "int", useArrow=False)("i")}) == Changed(updated=200)
    assert accident.happened
    assert values_of(store, "db.again") == {i: i + 1 for i in range(200)}
    until("no staging directory", lambda: hidden(warehouse) == [])


def test_a_merge_changes_and_adds_each_row_once(
    spark: SparkSession, store: Store, config: str, warehouse: Path, accident: Twice | Kill
) -> None:
    """TABLES rule 13: with a checkpoint the source is evaluated once, also where an executor is lost after that."""
    from pyspark.sql.functions import expr, udf

    def same(value: int) -> int:
        if value == 1150:
            accident()
        return value

    store.create_table("db.merged", {"i": "bigint", "v": "int"}).append(pa.table({"i": range(1000), "v": [0] * 1000}))
    source = spark.range(0, 2000, 1, 3).selectExpr("id as k", "cast(id + if(rand() < 2, 1, 0) as int) as w")
    value = udf(same, "int", useArrow=False)(expr("w"))
    found = (
        AcidTable.for_name(spark, "db.merged", config=config)
        .merge(source, "i = k")
        .when_matched_delete("k % 2 = 0")
        .when_matched_update(set={"v": value})
        .when_not_matched_insert(values={"i": "k", "v": value})
        .execute()
    )
    assert accident.happened
    assert found == Changed(updated=500, deleted=500, inserted=1000)
    assert values_of(store, "db.merged") == {i: i + 1 for i in (*range(1, 1000, 2), *range(1000, 2000))}
    until("no staging directory", lambda: hidden(warehouse) == [])


def test_changes_of_a_lost_executor_are_written_by_another(
    spark: SparkSession, store: Store, config: str, warehouse: Path, cluster: Path
) -> None:
    """TABLES rule 14, where the executor is lost that has staged a part of the changes."""
    rows = 400_000
    table = store.create_table("db.large", {"i": "bigint", "v": "int"}, clustered_by=(["i"], 4))
    table.append(pa.table({"i": range(rows), "v": pa.array([0] * rows, pa.int32())}))
    large = AcidTable.for_name(spark, "db.large", config=config)
    with ThreadPoolExecutor(1) as pool:
        updating = pool.submit(large.update, set={"v": "i + 1"})
        until("staged changes", lambda: updating.done() or any(staged(warehouse)))
        assert not updating.done(), updating.result()
        os.kill(executors_of(cluster)[0], signal.SIGKILL)
        assert updating.result() == Changed(updated=rows)
    found = store.load_table("db.large").scan().to_arrow()
    assert found.num_rows == rows
    assert pc.all(pc.equal(found["v"], pc.add(found["i"], 1))).as_py()
    until("no staging directory", lambda: hidden(warehouse) == [])
