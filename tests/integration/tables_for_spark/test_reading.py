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

from compactor.spark_tables import AcidTable, snapshot, sql
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_folder import Folder
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
        jvm = find_process(pid_of(session))
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


@pytest.mark.parametrize("pushed", ["false", "true"])
def test_a_frame_has_all_of_its_rows_however_often_it_is_used(
    pushed: str, spark: SparkSession, read: Callable[..., DataFrame], store: Store, config: str, tmp_path: Path
) -> None:
    """PROTOCOL 13.7: no filter of one scan is one of another scan of the same frame."""
    store.load_table("db.t").append(pa.table({"i": [4], "s": ["d"]}))
    spark.conf.set(PUSH, pushed)
    try:
        frame = read("db.t")
        assert [row.i for row in frame.filter("i = 1").collect()] == [1]
        assert frame.count() == 4
        frame = read("db.t")
        assert frame.filter("i = 1").union(frame).count() == 5
        assert frame.filter("i = 2").union(frame.filter("i = 3")).count() == 2
        assert frame.filter("i < 3").alias("x").join(frame.alias("y"), "i", "right_outer").count() == 4
        assert frame.filter("i > 1").exceptAll(frame.filter("i > 2")).count() == 1
        frame = read("db.t")
        frame.createOrReplaceTempView("again")
        assert spark.sql("select count(*) from again where i = 3").first() == (1,)
        assert spark.sql("select (select count(*) from again), (select count(*) from again where i < 3)").first() == (
            4,
            2,
        )
        both = "with w as (select * from again) select i from w where i = 1 union all select i from w where i > 1"
        assert sorted(row.i for row in spark.sql(both).collect()) == [1, 2, 3, 4]
        frame.filter("i = 4").cache().count()
        assert frame.count() == 4
        spark.catalog.clearCache()
        frame = sql(spark, "select i, s from db.t where i > 1", config=config)
        assert [row.i for row in frame.filter("i = 2").collect()] == [2]
        assert sorted(row.i for row in frame.collect()) == [2, 3, 4]
        twice = "select x.i from db.t x join db.t y on x.i = y.i where x.i < 3 and y.s is not null"
        assert sorted(row.i for row in sql(spark, twice, config=config).collect()) == [1, 2]
        table = AcidTable.for_name(spark, "db.t", config=config)
        frame = table.toDF()
        assert frame.filter("i = 1").count() + frame.count() == 5
        least = "i = (select min(i) from db.t) or i = (select max(i) from db.t where i < 3)"
        assert sql(spark, f"delete from db.t where {least}", config=config).first().rows == 2
        merge = table.alias("t").merge(frame.filter("i < 3").alias("s"), "t.i = s.i and t.i > 0")
        assert merge.when_not_matched_insert_all().execute().inserted == 2
        arriving = spark.readStream.format("hive_acid").options(table="db.t", config=config).load()
        checkpoint = str(tmp_path / "checkpoint")
        query = arriving.filter("i > 2").union(arriving).writeStream.format("memory").queryName(f"seen_{pushed}")
        query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        assert spark.table(f"seen_{pushed}").count() == 6
    finally:
        spark.conf.set(PUSH, "false")


@pytest.mark.usefixtures("store")
def test_a_query_of_one_table_reads_no_partition_that_its_condition_leaves_out(
    spark: SparkSession, store: Store, warehouse: Path, config: str
) -> None:
    """PROTOCOL 13.7: what Spark would compare in another way leaves nothing out."""
    kinds = {"i": "int", "x": "double", "c": "char(3)", "d": "date", "p": "string"}
    table = store.create_table("db.where", kinds, partitioned_by=["p"])
    day = datetime.date(2026, 11, 1)
    table.append(
        pa.table({"i": [1, 2, 3], "x": [1.5, float("nan"), 2.5], "c": ["a"] * 3, "d": [day] * 3, "p": ["7", "07", "q"]})
    )

    def found(where: str) -> list[int]:
        return sorted(row.i for row in sql(spark, f"select i from db.where where {where}", config=config).collect())

    assert found("x > 2") == [2, 3]
    assert found("c = 'a'") == []
    assert found("d = '2026-11-01' and p <> 'q'") == [1, 2]
    assert found("try_cast(p as int) = 7") == [1, 2]
    assert found("p = 'q' or x > 2 and i = 2") == [2, 3]
    assert found("i between 2 and 3 and p = 'q'") == [3]
    assert found("i = 1.0 and p in ('7', 'q')") == [1]
    for path in (warehouse / "where" / "p=7").rglob("bucket_*"):
        path.write_bytes(b"not read" + path.read_bytes()[8:])
    assert found("where.p = 'q' and x > 0") == [3]
    assert found("p = 'q' and x = 2.5 and d >= date'2026-11-01'") == [3]
    assert found("(p = 'q' or p = '07') and x > 0") == [2, 3]


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
    with pytest.raises(Exception, match=r"SnapshotExpired.*released or lost"):
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
    folder = Folder(find_process(pid_of(spark)))
    pid = keeper_of(folder)
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    until("the end of the keeper", lambda: keeper_of(folder) is None)
    with pytest.raises(Exception, match=r"SnapshotExpired.*its keeper is gone"):
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
