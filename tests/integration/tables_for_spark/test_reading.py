"""DataFrames of Hive ACID tables, in a real Spark."""

from __future__ import annotations

import datetime
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from compactor.spark_tables import snapshot
from compactor.spark_tables.application import process
from compactor.spark_tables.folder import Folder
from compactor.tables import Store
from tests.integration.tables_for_spark.conftest import keeper_of
from tests.support.patience import until
from tests.support.spark_sessions import local_session, pid_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]
PUSH = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
        jvm = process(pid_of(session))
    until("the end of the keeper", lambda: keeper_of(Folder(jvm)) is None)


@pytest.fixture
def read(spark: SparkSession, config: str) -> Callable[..., DataFrame]:
    def table(name: str, **options: str) -> DataFrame:
        return spark.read.format("hive_acid").options(table=name, config=config, **options).load()

    return table


def test_one_frame_has_one_snapshot_in_self_joins_and_later_actions(
    read: Callable[..., DataFrame], store: Store
) -> None:
    frame = read("db.t")
    assert frame.count() == 3
    store.load_table("db.t").append(pa.table({"i": [4], "s": ["d"]}))
    store.load_table("db.t").delete("i = 1")
    assert frame.count() == 3
    assert frame.alias("x").join(frame.alias("y"), "i").count() == 3
    assert sorted(row.i for row in read("db.t").collect()) == [2, 3, 4]


def test_every_type_comes_as_spark_has_it(read: Callable[..., DataFrame], store: Store) -> None:
    kinds = {
        "a": "tinyint", "b": "decimal(10,2)", "c": "char(3)", "d": "date", "e": "timestamp", "f": "array<int>",
        "g": "map<string,bigint>", "h": "struct<x:int,y:string>", "k": "boolean", "l": "binary",
        "m": "double", "p": "string",
    }  # fmt: skip
    store.create_table("db.types", kinds, partitioned_by=["p"])
    row = {
        "a": 1, "b": Decimal("1.50"), "c": "ab ", "d": datetime.date(2026, 1, 2),
        "e": datetime.datetime(2026, 1, 2, 3, 4, 5, 6), "f": [1, None], "g": {"k": 7}, "h": (1, "y"), "k": True,
        "l": bytearray(b"x"), "m": 1.5, "p": "q",
    }  # fmt: skip
    schema = store.load_table("db.types").schema
    given = {**row, "g": [("k", 7)], "h": {"x": 1, "y": "y"}, "l": b"x"}
    store.load_table("db.types").append(
        pa.table({name: pa.array([given[name]], schema.field(name).type) for name in kinds})
    )
    [found] = read("db.types").collect()
    assert found.asDict() == row
    [some] = read("db.types", columns="P, a", row_ids="true").collect()
    assert some.asDict() == {"row__id": (1, 536870912, 0), "a": 1, "p": "q"}


@pytest.mark.parametrize("pushed", ["false", "true"])
def test_filters_give_the_same_rows_whether_spark_pushes_them_or_not(
    pushed: str, spark: SparkSession, read: Callable[..., DataFrame], store: Store
) -> None:
    kinds = {"i": "bigint", "s": "string", "c": "char(3)", "x": "double", "p": "int"}
    store.create_table("db.parts", kinds, partitioned_by=["p"])
    store.load_table("db.parts").append(
        pa.table(
            {
                "i": list(range(100)),
                "s": [None if at % 7 == 0 else f"s{at}%" for at in range(100)],
                "c": ["a"] * 100,
                "x": [float("nan") if at % 10 == 0 else at / 2 for at in range(100)],
                "p": [at % 3 for at in range(100)],
            }
        )
    )
    spark.conf.set(PUSH, pushed)
    try:
        frame = read("db.parts")
        for condition, wanted in {
            "i between 3 and 7 and p = 1": [4, 7],
            "s like 's1%' and i < 15": [1, 10, 11, 12, 13],
            "s is null and i > 90": [91, 98],
            "x > 49.4": [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99],
            "c = 'a' and i = 5": [],
            "c = 'a  ' and i = 5": [5],
            "p not in (0, 1) and i in (2, 5, 6)": [2, 5],
        }.items():
            assert sorted(row.i for row in frame.filter(condition).collect()) == wanted, condition
    finally:
        spark.conf.set(PUSH, "false")
    assert sorted(row.i for row in read("db.parts", filter="p = 1 and i < 8", columns="i").collect()) == [1, 4, 7]


def test_several_tables_are_read_under_one_snapshot(
    spark: SparkSession, read: Callable[..., DataFrame], store: Store, config: str, open_agents: Callable[[], list[str]]
) -> None:
    store.create_table("db.u", {"i": "bigint"})
    before = len(open_agents())
    with snapshot(spark, config=config) as name:
        assert read("db.t", snapshot=name).count() == 3
        store.load_table("db.u").append(pa.table({"i": [1]}))
        assert read("db.u", snapshot=name).count() == 0
        assert len(open_agents()) == before + 1
        application = spark.sparkContext.applicationId
        assert all(agent.startswith(f"compactor-{application}-") for agent in open_agents())
    assert len(open_agents()) == before
    with pytest.raises(Exception, match=r"SnapshotExpired.*not held"):
        read("db.u", snapshot=name)


@pytest.mark.usefixtures("store")
def test_a_large_file_is_read_by_several_tasks(read: Callable[..., DataFrame], store: Store) -> None:
    table = store.create_table(
        "db.many", {"i": "bigint"}, properties={"orc.stripe.size": "1048576", "orc.compress": "NONE"}
    )
    values = [at * 2_654_435_761 % 2**40 for at in range(700_000)]
    table.append(pa.table({"i": values}))
    frame = read("db.many", split_bytes="256k")
    assert frame.rdd.getNumPartitions() > 3
    assert frame.selectExpr("sum(i)", "count(*)").collect() == [(sum(values), 700_000)]


@pytest.mark.usefixtures("store")
def test_what_cannot_be_read_is_said(spark: SparkSession, read: Callable[..., DataFrame], config: str) -> None:
    with pytest.raises(Exception, match=r"NotFound: .*db\.none"):
        read("db.none")
    with pytest.raises(Exception, match=r"BadExpression.*at character"):
        read("db.t", filter="i >")
    with pytest.raises(Exception, match="a table has its own schema"):
        spark.read.format("hive_acid").schema("i int").options(table="db.t", config=config).load().collect()


@pytest.mark.usefixtures("store")
def test_after_a_killed_keeper_frames_have_their_rows_or_fail_and_new_ones_are_read(
    spark: SparkSession, read: Callable[..., DataFrame], warehouse: Path
) -> None:
    planned, unplanned = read("db.t"), read("db.t")
    assert planned.count() == 3
    folder = Folder(process(pid_of(spark)))
    pid = keeper_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until("the end of the keeper", lambda: keeper_of(folder) is None)
    with pytest.raises(Exception, match=r"SnapshotExpired.*the keeper that held it is gone"):
        unplanned.count()
    assert planned.count() == read("db.t").count() == 3
    shutil.rmtree(next((warehouse / "t").glob("delta_*")))  # as a cleaner may: nothing protects it
    with pytest.raises(Exception, match=r"SnapshotExpired.*is gone"):
        planned.count()


@pytest.mark.usefixtures("store")
def test_a_killed_driver_leaves_no_transaction(
    tmp_path: Path, config: str, open_agents: Callable[[], list[str]]
) -> None:
    code = f"""
import sys
from pathlib import Path
from tests.support.spark_sessions import local_session
with local_session(Path({str(tmp_path)!r})) as session:
    frame = session.read.format("hive_acid").options(table="db.t", config={config!r}).load()
    print(frame.count(), flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as driver:
        assert driver.stdout is not None
        assert driver.stdout.readline() == "3\n"
        assert len(open_agents()) == 1
        os.killpg(driver.pid, signal.SIGKILL)
    until("the end of its transaction", lambda: open_agents() == [])
