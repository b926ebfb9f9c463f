"""A table read as a stream by a real Spark: each row once, whatever is compacted, cleaned or killed between."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from compactor.site.site import Site
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_folder import Folder
from compactor.tables import Store
from tests.integration.tables_for_spark.conftest import keeper_of
from tests.support.passes import clean_all, compact
from tests.support.patience import until
from tests.support.spark_sessions import local_session, pid_of
from tests.support.tables import with_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from compactor.spark_tables import register

    with local_session(tmp_path_factory.mktemp("spark")) as session:
        register(session)
        yield session
        jvm = find_process(pid_of(session))
    until("the end of the keeper", lambda: keeper_of(Folder(jvm)) is None)


class Arriving:
    """A query that reads the table as a stream into a folder of Parquet files, until it has seen what is there."""

    def __init__(self, spark: SparkSession, config: str, home: Path) -> None:
        self._spark, self._config, self.home = spark, config, home
        self._seen: list[int] = []

    def run(self, **options: str) -> list[int]:
        """Returns what it has read since the last time, sorted."""
        given = {"table": "db.t", "config": self._config, **options}
        query = (
            self._spark.readStream.format("hive_acid")
            .options(**given)
            .load()
            .select("i")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(self.home / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(self.home / "out"))
        )
        query.awaitTermination()
        found = sorted(row["i"] for row in self._spark.read.parquet(str(self.home / "out")).collect())
        new = list(found)
        for one in self._seen:
            new.remove(one)
        self._seen = found
        return new


@pytest.fixture
def arriving(spark: SparkSession, config: str, tmp_path: Path) -> Arriving:
    return Arriving(spark, config, tmp_path)


def test_each_row_comes_once(
    arriving: Arriving, store: Store, deployment: Site, open_agents: Callable[[], list[str]]
) -> None:
    """One test, since queries take seconds."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = store.load_table("db.t")
    assert arriving.run() == [1, 2, 3]
    assert arriving.run() == []
    table.append(pa.table({"i": [4, 5], "s": ["d", "e"]}))
    with store.transaction() as txn:
        txn.load_table("db.t").append(pa.table({"i": [6], "s": ["f"]}))
        table.append(pa.table({"i": [7], "s": ["g"]}))
        assert arriving.run() == [4, 5, 7]
    table.delete("i = 4")
    table.update({"i": "20"}, where="i = 1")
    compact(site, table="db.t")
    clean_all(site)
    assert arriving.run() == [6, 20]  # an update is a row that comes; a delete is not told
    compact(site, "rebalance", table="db.t")
    assert arriving.run() == []
    # Spark kills the process that has read, and the keeper looks now and then whether it is there
    until("the last batch's snapshot is let go", lambda: not open_agents())


def test_a_stream_that_begins_now(arriving: Arriving, store: Store) -> None:
    assert arriving.run(starting="latest") == []
    store.load_table("db.t").append(pa.table({"i": [4], "s": ["d"]}))
    assert arriving.run(starting="latest") == [4]
    with pytest.raises(Exception, match="starting is 'noon'; expected earliest or latest"):
        arriving.run(starting="noon")
    with pytest.raises(Exception, match="hive_acid has no option 'snapshot' here"):
        arriving.run(starting="latest", snapshot="x")


def test_a_batch_that_was_not_finished_comes_again(
    arriving: Arriving, spark: SparkSession, store: Store, deployment: Site
) -> None:
    """Spark's checkpoint says which commits a batch has; later ones are not in it."""
    assert arriving.run() == [1, 2, 3]
    store.load_table("db.t").append(pa.table({"i": [4], "s": ["d"]}))
    assert arriving.run() == [4]
    for name in ("1", ".1.crc"):
        (arriving.home / "checkpoint" / "commits" / name).unlink()
    store.load_table("db.t").append(pa.table({"i": [5], "s": ["e"]}))
    folder = Folder(find_process(pid_of(spark)))
    pid = keeper_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until("the end of the keeper", lambda: keeper_of(folder) is None)
    assert [*arriving.run(), *arriving.run()] == [
        5
    ]  # the sink of files knows batch 1; Spark first finishes that one alone


def test_a_table_that_was_made_anew_ends_the_query(arriving: Arriving, store: Store, warehouse: Path) -> None:
    arriving.run()
    store.drop_table("db.t")
    shutil.rmtree(warehouse / "t")
    store.create_table("db.t", {"i": "bigint", "s": "string"})
    with pytest.raises(Exception, match="dropped and re-created; start the query with a new checkpoint"):
        arriving.run()
