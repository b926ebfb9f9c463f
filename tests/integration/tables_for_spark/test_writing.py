"""DataFrames written into Hive ACID tables, in a real Spark."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_folder import Folder
from compactor.tables import Store
from tests.integration.tables_for_spark.conftest import hidden, keeper_of, rows_of
from tests.support.patience import until
from tests.support.spark_sessions import local_session, pid_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with two executors, which tries a failed task again. Spark runs no slow task twice on one host, so a second
    attempt that is as good as the first is a unit test's (``test_shared``)."""
    conf = {
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "spark.executor.memory": "512m",
        "spark.testing.reservedMemory": "0",
    }
    with local_session(tmp_path_factory.mktemp("spark"), "local-cluster[2,1,512]", conf) as session:
        yield session
        jvm = find_process(pid_of(session))
    until("the end of the keeper", lambda: keeper_of(Folder(jvm)) is None)


@pytest.fixture
def write(config: str) -> Callable[..., None]:
    def to(frame: DataFrame, name: str, mode: str = "append", **options: str) -> None:
        frame.write.format("hive_acid").options(table=name, config=config, **options).mode(mode).save()

    return to


def test_rows_are_appended_in_one_transaction_and_read_again(
    spark: SparkSession,
    write: Callable[..., None],
    store: Store,
    config: str,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    before = len(open_agents())
    write(spark.range(10, 1010, 1, 4).selectExpr("id as I", "cast(id as string) as s"), "db.t")
    assert len(open_agents()) == before
    read = spark.read.format("hive_acid").options(table="db.t", config=config)
    assert read.load().selectExpr("count(*)", "sum(i)", "count(s)").collect() == [
        (1003, 6 + sum(range(10, 1010)), 1002)
    ]
    assert hidden(warehouse) == []
    assert len(list((warehouse / "t").glob("delta_0000002_*"))) == 4
    write(read.load().filter("i >= 1005").select("i"), "db.t", "overwrite")
    assert rows_of(store, "db.t") == [1005, 1006, 1007, 1008, 1009]


def test_rows_go_to_their_partitions_and_buckets(
    spark: SparkSession, write: Callable[..., None], store: Store, warehouse: Path
) -> None:
    kinds = {"i": "bigint", "t": "timestamp", "d": "date"}
    table = store.create_table("db.parts", kinds, partitioned_by=["d"], clustered_by=(["i"], 2))
    frame = spark.range(0, 100, 1, 3).selectExpr(
        "id as i",
        "timestamp_ntz'2026-01-02 03:04:05.000006' as t",
        "date_add(date'2026-01-01', cast(id % 2 as int)) as d",
    )
    write(frame, "db.parts")
    assert table.partitions == ("d=2026-01-01", "d=2026-01-02")
    [one] = table.scan("i = 7").to_arrow().to_pylist()
    assert one["t"] == datetime.datetime(2026, 1, 2, 3, 4, 5, 6)
    write(frame.filter("i < 10 and i % 2 = 1"), "db.parts", "overwrite")
    assert rows_of(store, "db.parts") == sorted([*range(0, 100, 2), 1, 3, 5, 7, 9])
    assert hidden(warehouse) == []


def test_a_timestamp_with_a_zone_needs_one_to_become_wall_clock_time(
    spark: SparkSession, write: Callable[..., None], store: Store
) -> None:
    table = store.create_table("db.times", {"t": "timestamp"})
    frame = spark.sql("select timestamp'2026-07-01T00:00:00Z' as t")
    with pytest.raises(Exception, match="NotConforming"):
        write(frame, "db.times")
    write(frame, "db.times", time_zone="Europe/Berlin")
    assert table.scan().to_arrow().to_pylist() == [{"t": datetime.datetime(2026, 7, 1, 2)}]


def test_a_task_that_fails_is_tried_again_and_writes_nothing_twice(
    spark: SparkSession, write: Callable[..., None], store: Store, tmp_path: Path, warehouse: Path
) -> None:
    store.create_table("db.once", {"i": "bigint"})
    mark = str(tmp_path / "mark")

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        yield from batches
        if task.partitionId() == 1 and task.attemptNumber() == 0:
            open(mark, "w").close()
            raise RuntimeError("the first attempt fails")

    write(spark.range(0, 6000, 1, 6).selectExpr("id as i").mapInArrow(failing, "i long"), "db.once")
    assert os.path.exists(mark)
    assert rows_of(store, "db.once") == list(range(6000))
    assert hidden(warehouse) == []


def test_rows_of_a_lost_executor_are_written_by_another(
    spark: SparkSession, write: Callable[..., None], store: Store, tmp_path: Path
) -> None:
    store.create_table("db.lost", {"i": "bigint"})
    mark = str(tmp_path / "mark")

    def killing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        from compactor.spark_tables.driver_jvm import find_driver

        yield from batches
        task = TaskContext.get()
        assert task is not None
        if task.partitionId() == 1 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(find_driver().pid, signal.SIGKILL)  # the JVM above this task, which is its executor's

    write(spark.range(0, 4000, 1, 4).selectExpr("id as i").mapInArrow(killing, "i long"), "db.lost")
    assert os.path.exists(mark)
    assert rows_of(store, "db.lost") == list(range(4000))


@pytest.mark.usefixtures("store")
def test_a_job_that_fails_leaves_nothing(
    spark: SparkSession, write: Callable[..., None], store: Store, warehouse: Path, open_agents: Callable[[], list[str]]
) -> None:
    before = len(open_agents())
    with pytest.raises(Exception, match=r"(?i)divide"):
        write(spark.range(0, 100, 1, 4).selectExpr("id div (id - 70) as i"), "db.t")
    with pytest.raises(Exception, match=r"no column 'x'|NotConforming|NotFound"):
        write(spark.range(3).selectExpr("id as x"), "db.t")
    assert rows_of(store, "db.t") == [1, 2, 3]
    assert hidden(warehouse) == []
    assert len(open_agents()) == before


_DRIVER = """
import sys
from pathlib import Path
from tests.support.spark_sessions import local_session

def slow(batches):
    import time
    yield from batches
    Path({mark!r}).touch()
    time.sleep(600)

with local_session(Path({folder!r})) as session:
    frame = session.range(0, 100, 1, 2).selectExpr("id as i").mapInArrow(slow, "i long")
    frame.write.format("hive_acid").options(table="db.t", config={config!r}).mode("append").save()
"""


def test_a_driver_that_is_killed_while_it_writes_leaves_nothing(
    tmp_path: Path, config: str, store: Store, warehouse: Path, open_agents: Callable[[], list[str]]
) -> None:
    mark = tmp_path / "mark"
    code = _DRIVER.format(mark=str(mark), folder=str(tmp_path), config=config)
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL, start_new_session=True) as driver:
        until("a task that has written rows", mark.exists)
        assert len(open_agents()) == 1
        os.killpg(driver.pid, signal.SIGKILL)
    until("the end of its transaction", lambda: open_agents() == [])
    until("no staging directory", lambda: hidden(warehouse) == [])
    assert rows_of(store, "db.t") == [1, 2, 3]
