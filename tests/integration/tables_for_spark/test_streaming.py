"""Structured Streaming into Hive ACID tables, in a real Spark: each batch once, whatever dies after its commit."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from compactor.base.errors import CommitUnknown, Refused, TransactionAborted
from compactor.site.site import Site
from compactor.spark_tables import forget_stream
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import AbortStream, BeginWrite, CommitWrite, MetastorePlace
from compactor.storage.stores import open_stores
from compactor.tables import Store
from compactor.tables.writing.part_files import write_part
from tests.integration.tables_for_spark.conftest import hidden, keeper_of, rows_of
from tests.support.patience import until
from tests.support.spark_sessions import local_session, pid_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
        jvm = find_process(pid_of(session))
    until("the end of the keeper", lambda: keeper_of(Folder(jvm)) is None)


class Arrivals:
    """A folder of JSON files, each of which is a batch, and a query that writes them."""

    def __init__(self, spark: SparkSession, config: str, home: Path) -> None:
        self._spark, self._config, self._home = spark, config, home
        self.checkpoint, self.folder = home / "checkpoint", home / "in"
        self.folder.mkdir()
        self._count = 0

    def add(self, *numbers: int) -> None:
        """A file that is whole once it is there."""
        self._count += 1
        made = self._home / f"{self._count}.json"
        made.write_text("".join(f'{{"i": {number}, "s": "x"}}\n' for number in numbers))
        made.rename(self._home / "in" / made.name)

    def run(self, table: str = "db.t", mode: str = "append", **options: str) -> None:
        """Starts the query, which ends when it has written what is there."""
        given = {"table": table, "config": self._config, "stream": "arrivals", **options}
        read = self._spark.readStream.schema("i bigint, s string").option("maxFilesPerTrigger", 1)
        rows: Any = read.json(str(self._home / "in"))
        if mode == "complete":
            rows = rows.groupBy("s").count().selectExpr("count as i", "s")
        query = (
            rows.writeStream.format("hive_acid")
            .outputMode(mode)
            .options(**given)
            .option("checkpointLocation", str(self.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forget(self, number: int) -> None:
        """Makes Spark believe that a batch was not committed, as if its driver had died right after the commit."""
        for name in (f"{number}", f".{number}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)


@pytest.fixture
def arrivals(spark: SparkSession, config: str, tmp_path: Path) -> Arrivals:
    from compactor.spark_tables import register

    register(spark)
    home = tmp_path / "stream"
    home.mkdir()
    return Arrivals(spark, config, home)


def test_a_stream_writes_each_batch_once(
    spark: SparkSession, config: str, arrivals: Arrivals, store: Store, deployment: Site, warehouse: Path
) -> None:
    """PROTOCOL 14.21; one test, since batches take seconds."""
    arrivals.add(10, 11)
    arrivals.add(12)
    arrivals.run()
    assert rows_of(store) == [1, 2, 3, 10, 11, 12]
    deltas = sorted(path.name for path in (warehouse / "t").glob("delta_*"))
    assert len(deltas) == 3  # the rows of the fixture, and one for each batch

    arrivals.forget(1)
    arrivals.add(13)
    arrivals.run()  # batch 1 again, then 2
    assert rows_of(store) == [1, 2, 3, 10, 11, 12, 13]

    for _ in range(2):
        arrivals.forget(2)
        arrivals.run()
    assert rows_of(store) == [1, 2, 3, 10, 11, 12, 13]

    # another checkpoint under the same name would lose its first batches
    arrivals.checkpoint = arrivals.checkpoint.with_name("anew")
    with pytest.raises(Exception, match=r"batch 0 of stream 'arrivals' comes from query .*forget_stream"):
        arrivals.run()
    assert rows_of(store) == [1, 2, 3, 10, 11, 12, 13]
    with pytest.raises(Exception, match="stream is ''; expected at most 128 letters"):
        arrivals.run(stream="")
    assert forget_stream(spark, "db.t", "arrivals", config=config)
    arrivals.run()
    assert rows_of(store) == sorted([1, 2, 3, *[10, 11, 12, 13] * 2])
    assert deployment.metastore.transactions.open_transactions() == []
    assert hidden(warehouse) == []


def test_a_query_whose_first_batch_has_a_known_number_is_refused(
    spark: SparkSession, config: str, arrivals: Arrivals, store: Store
) -> None:
    """PROTOCOL 14.21: a stream is its name and its checkpoint, also where a program writes its batches."""
    arrivals.add(10)
    arrivals.run()
    arrivals.checkpoint = arrivals.checkpoint.with_name("anew")
    with pytest.raises(Exception, match="batch 0 of stream 'arrivals' comes from query"):
        arrivals.run()
    assert rows_of(store) == [1, 2, 3, 10]

    def write(rows: DataFrame, number: int) -> None:
        save = rows.write.format("hive_acid").options(table="db.t", config=config, stream="mine", batch=number)
        save.mode("append").save()

    def batches(name: str) -> None:
        rows = spark.readStream.schema("i bigint, s string").json(str(arrivals.folder))
        query = rows.writeStream.foreachBatch(write).option(
            "checkpointLocation", str(arrivals.checkpoint.with_name(name))
        )
        query.trigger(availableNow=True).start().awaitTermination()

    batches("first")
    with pytest.raises(Exception, match="batch 0 of stream 'mine' comes from query"):
        batches("second")
    with pytest.raises(Exception, match="batch 1 of stream 'mine' comes from a program"):
        write(spark.createDataFrame([(5, "x")], "i bigint, s string"), 1)
    assert rows_of(store) == [1, 2, 3, 10, 10]


def test_a_stream_replaces_rows(arrivals: Arrivals, store: Store) -> None:
    """Complete mode: each batch is an INSERT OVERWRITE."""
    arrivals.add(1, 2)
    arrivals.run(mode="complete")
    arrivals.add(3)
    arrivals.run(mode="complete")
    assert store.load_table("db.t").scan().to_arrow().to_pylist() == [{"i": 3, "s": "x"}]


def begun(keeper: Keeper, place: MetastorePlace, number: int | None = None, value: int = 7) -> CommitWrite:
    """A batch with one row, up to its commit."""
    write = keeper.ask(BeginWrite(place=place, table="db.t", overwrite=False, stream="s", batch=number))
    rows = pa.RecordBatch.from_pydict({"i": [value], "s": ["x"]})
    return CommitWrite(hold=write.hold, parts=write_part(write.work, [rows], 0, open_stores(write.stores)))


def test_a_write_with_a_batch_is_known(keeper: Keeper, place: MetastorePlace, store: Store, warehouse: Path) -> None:
    """The same for a program's own batches (``foreachBatch``), which are known when they begin."""
    assert keeper.ask(begun(keeper, place, 4)) == 1
    assert keeper.ask(begun(keeper, place, 4)) == 0
    with pytest.raises(Refused, match="after batch 4"):
        keeper.ask(begun(keeper, place, 3))
    assert keeper.ask(begun(keeper, place, 5, 8)) == 1
    assert rows_of(store) == [1, 2, 3, 7, 8]
    assert hidden(warehouse) == []


def test_a_batch_that_begins_again_ends_its_first_attempt(
    keeper: Keeper, place: MetastorePlace, store: Store, open_agents: Callable[[], list[str]]
) -> None:
    first = begun(keeper, place)
    second = begun(keeper, place)
    assert len(open_agents()) == 1
    with pytest.raises(TransactionAborted, match="no longer held"):
        keeper.ask(first)
    assert keeper.ask(AbortStream(place=place, table="DB.T", stream="s")) is True
    assert keeper.ask(AbortStream(place=place, table="db.t", stream="s")) is False
    with pytest.raises(TransactionAborted, match="no longer held"):
        keeper.ask(second)
    assert open_agents() == []
    assert rows_of(store) == [1, 2, 3]


def test_a_batch_whose_keeper_is_killed_comes_again(
    keeper: Keeper, place: MetastorePlace, store: Store, folder: Folder
) -> None:
    """Killed before its commit it is not there, killed after it it is known."""
    lost = begun(keeper, place, 1)
    kill(folder)
    with pytest.raises(TransactionAborted):
        keeper.ask(lost)
    again = begun(keeper, place, 1)
    assert keeper.ask(again) == 1
    kill(folder)
    with pytest.raises((TransactionAborted, CommitUnknown)):
        keeper.ask(again)
    assert keeper.ask(begun(keeper, place, 1)) == 0
    assert rows_of(store) == [1, 2, 3, 7]


def kill(folder: Folder) -> None:
    pid = keeper_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until("the end of the keeper", lambda: keeper_of(folder) is None)
