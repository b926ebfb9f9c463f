"""Rows of Hive ACID tables deleted, updated and merged, in a real Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from compactor.base.errors import NotConforming, NotFound, NotSupported, Refused
from compactor.spark_tables import AcidTable, Changed, merge_scan_filter, register, sql
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_folder import Folder
from compactor.tables import Store
from compactor.tables.schema import PARTS
from tests.integration.tables_for_spark.conftest import hidden, keeper_of
from tests.support.patience import until
from tests.support.spark_sessions import local_session, pid_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bucketed": {"clustered_by": (["i"], 3)},
    "partitioned": {"partitioned_by": ["p"]},
    "both": {"partitioned_by": ["p"], "clustered_by": (["i"], 2)},
}
NEW = [(5, 500, "1"), (6, 600, "0"), (100, 1, "0"), (101, 2, "new"), (None, 3, "0")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session that tries a failed task once again."""
    with local_session(tmp_path_factory.mktemp("spark"), "local[2,2]") as session:
        yield session
        jvm = find_process(pid_of(session))
    until("the end of the keeper", lambda: keeper_of(Folder(jvm)) is None)


@pytest.fixture
def acid(spark: SparkSession, config: str) -> Callable[[str], AcidTable]:
    return lambda name: AcidTable.for_name(spark, name, config=config)


def filled(store: Store, name: str, **more: Any) -> None:
    """A table with two deltas and rows that were deleted and updated."""
    table = store.create_table(name, {"i": "bigint", "v": "int", "p": "string"}, **more)
    rows = list(range(20))
    for part in (rows[:12], rows[12:]):
        table.append(pa.table({"i": part, "v": part, "p": [str(one % 2) for one in part]}))
    table.delete("i = 3 or i = 13")
    table.update({"v": "0"}, "i = 5 or i = 14")


def rows_of(store: Store, name: str) -> list[tuple[Any, ...]]:
    found = (tuple(row.values()) for row in store.load_table(name).scan().to_arrow().to_pylist())
    return sorted(found, key=lambda row: tuple((value is None, value) for value in row))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_changed_as_a_python_program_changes_them(
    spark: SparkSession,
    acid: Callable[[str], AcidTable],
    store: Store,
    shape: str,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    """TABLES rules 6, 7, 9 and 13: what a statement leaves is the same rows as ``compactor.tables`` leaves."""
    filled(store, "db.ours", **SHAPES[shape])
    filled(store, "db.twin", **SHAPES[shape])
    ours, twin = acid("db.ours"), store.load_table("db.twin")
    before = len(open_agents())
    assert ours.delete("i % 100 = 4 OR p = '1' AND v > 16") == Changed(deleted=twin.delete("i = 4 or i = 17 or i = 19"))
    changed = ours.update(set={"v": "-7"}, condition="ours.i between 7 and 9")
    assert changed == Changed(updated=twin.update({"v": "-7"}, "i >= 7 and i <= 9"))
    assert rows_of(store, "db.ours") == rows_of(store, "db.twin")
    source = spark.createDataFrame(NEW, "i long, v int, p string").alias("s")
    merge = ours.alias("t").merge(source, "t.i = s.i").when_matched_update_all().when_not_matched_insert_all()
    rows = pa.table({name: [row[at] for row in NEW] for at, name in enumerate(("i", "v", "p"))})
    upserted = twin.upsert(rows, ["i"])
    assert merge.execute() == Changed(updated=upserted.updated, inserted=upserted.inserted)
    assert rows_of(store, "db.ours") == rows_of(store, "db.twin")
    assert sorted(tuple(row) for row in ours.toDF().filter("v >= 500").collect()) == NEW[:2]
    assert hidden(warehouse) == []
    assert len(open_agents()) == before + 1  # the snapshot of that frame


def test_the_first_clause_whose_condition_is_true_counts(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store
) -> None:
    """TABLES rule 13; a condition that is NULL is not true, and a NULL key matches nothing."""
    from pyspark.sql.functions import col

    store.create_table("db.first", {"i": "bigint", "v": "int"}).append(
        pa.table({"i": [1, 2, 3, 4, None], "v": [1, 2, None, 4, 5]})
    )
    source = spark.createDataFrame([(1, 10), (2, 20), (3, 30), (4, 40), (None, 50), (8, 0), (9, 9)], "i long, w int")
    found = (
        acid("db.first")
        .merge(source.alias("s"), col("first.i") == col("s.i"))
        .when_matched_delete("v = 1")
        .when_matched_update("v < 3", {"v": col("s.w") + 1})
        .when_matched_update("v < 4 or v is null", {"V": "w + v"})
        .when_matched_delete("w = 41")
        .when_not_matched_insert("try_divide(10, w) > 1", {"i": "s.i"})
        .when_not_matched_insert(col("w") > 20, {"i": "s.i", "v": "w"})
        .execute()
    )
    assert found == Changed(deleted=1, updated=2, inserted=2)
    assert rows_of(store, "db.first") == [(2, 21), (3, None), (4, 4), (9, None), (None, 5), (None, 50)]


def test_timestamps_that_stay_as_they_are_keep_every_digit(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store
) -> None:
    """Spark has microseconds, and the first and last years of its own; what no statement assigns is not cut."""
    table = store.create_table("db.times", {"i": "bigint", "t": "timestamp", "l": "array<timestamp>", "u": "timestamp"})
    first = {"seconds": -62_000_000_000, "nanos": 123_456_789}
    kinds = pa.schema([("i", pa.int64()), ("t", PARTS), ("l", pa.list_(PARTS)), ("u", PARTS)])
    table.append(pa.Table.from_pylist([{"i": i, "t": first, "l": [first, None], "u": first} for i in (1, 2, 3)], kinds))
    times = acid("db.times")
    assert times.update("i < 3", {"u": "timestamp_ntz'1970-01-01 00:00:01.000002'"}).updated == 2
    source = spark.sql("select 2L as k, timestamp_ntz'1970-01-01 00:00:00' as w union all select 4L, null")
    merge = times.merge(source, "i = k").when_matched_update(set={"t": "w"}).when_not_matched_insert(values={"i": "k"})
    assert merge.execute() == Changed(updated=1, inserted=1)
    second, zero = {"seconds": 1, "nanos": 2_000}, {"seconds": 0, "nanos": 0}
    found = sorted(table.scan(timestamps="parts").to_arrow().to_pylist(), key=lambda row: row["i"])
    assert found == [
        {"i": 1, "t": first, "l": [first, None], "u": second},
        {"i": 2, "t": zero, "l": [first, None], "u": second},
        {"i": 3, "t": first, "l": [first, None], "u": first},
        {"i": 4, "t": None, "l": None, "u": None},
    ]


def test_a_row_that_matches_two_rows_of_the_source_fails_the_merge(
    spark: SparkSession,
    acid: Callable[[str], AcidTable],
    store: Store,
    warehouse: Path,
    open_agents: Callable[[], list[str]],
) -> None:
    """TABLES rule 13: ``hive.merge.cardinality.check``, also where no clause would change the row."""
    before = rows_of(store, "db.t"), len(open_agents())
    source = spark.createDataFrame([(1, "x"), (1, "y"), (2, "z")], "k long, w string")
    merge = acid("db.t").merge(source, "i = k").when_matched_update("w = 'x'", {"s": "w"})
    with pytest.raises(Refused, match="cardinality_violation"):
        merge.execute()
    assert (rows_of(store, "db.t"), len(open_agents())) == before
    assert hidden(warehouse) == []
    spark.conf.set("hive.merge.cardinality.check", "false")
    try:
        assert merge.execute() == Changed(updated=1)
    finally:
        spark.conf.unset("hive.merge.cardinality.check")
    assert rows_of(store, "db.t") == [(1, "x"), (2, "b"), (3, None)]


def test_a_source_with_random_values_is_evaluated_once(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store, tmp_path: Path
) -> None:
    """TABLES rule 13: each row of the source is either added or updates another one, whatever a second look would say, also
    when a task is tried again."""
    table = store.create_table("db.random", {"i": "bigint", "v": "double"})
    table.append(pa.table({"i": list(range(1000)), "v": [0.0] * 1000}))
    mark = str(tmp_path / "mark")

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
        if batch.num_rows and not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("the first attempt fails")

    source = spark.range(0, 1000, 1, 3).selectExpr("if(rand() < 0.5, id, id + 1000) as k", "rand() as w", "id")
    found = (
        acid("db.random")
        .merge(source.mapInArrow(failing, "k long, w double, id long"), "i = k")
        .when_matched_update(set={"v": "w + rand() + 1"})
        .when_not_matched_insert(values={"i": "k", "v": "-w - 1"})
        .execute()
    )
    assert os.path.exists(mark)
    rows = rows_of(store, "db.random")
    keys = [key for key, _ in rows]
    assert len(keys) == len(set(keys))
    assert {key for key, value in rows if value > 0} == set(range(1000)) - {key - 1000 for key in keys if key >= 1000}
    assert all(value < 0 for key, value in rows if key >= 1000)
    assert found == Changed(updated=sum(value > 0 for _, value in rows), inserted=len(rows) - 1000)


def test_a_task_that_fails_while_it_changes_rows_changes_nothing_twice(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store, tmp_path: Path, warehouse: Path
) -> None:
    """TABLES rule 14: task commits are idempotent by attempt."""
    from pyspark.sql.functions import udf

    table = store.create_table("db.again", {"i": "bigint", "v": "int"}, clustered_by=(["i"], 4))
    table.append(pa.table({"i": list(range(200)), "v": [0] * 200}))
    mark = str(tmp_path / "mark")

    def once(value: int) -> int:
        if value == 150 and not os.path.exists(mark):
            open(mark, "w").close()
            raise RuntimeError("the first attempt fails")
        return value + 1

    assert acid("db.again").update(set={"v": udf(once, "int", useArrow=False)("i")}) == Changed(updated=200)
    assert os.path.exists(mark)
    assert rows_of(store, "db.again") == [(i, i + 1) for i in range(200)]
    assert hidden(warehouse) == []


def quarter(key: int | None) -> Decimal | None:
    return None if key is None else Decimal(key % 1000) / 4


#: Keys that a merge looks for: of the source, in three columns; those of the table are like them.
KEYS = [None, 0, 1, -7, 2**31 - 1, -(2**31), 12, 13]
TEXTS = [None, "", "a", "a  ", "it's", "\\", "ä%_", "b"]


@pytest.mark.parametrize(
    "on",
    [
        *("t.i = s.i", "t.s = s.s", "t.c = s.s", "t.v = s.s", "t.d = s.d", "t.p = s.i", "t.b = s.i"),
        *("s.i = t.i and t.n >= s.n", "t.p = 12 and t.s = s.s", "(t.q = s.s and t.i >= s.i)", "t.f = s.f"),
        "t.b = row__id.rowid",  # the table's, though the source has a column rowid
    ],
)
def test_a_merge_reads_by_the_keys_of_its_source_and_finds_what_it_found(
    spark: SparkSession,
    acid: Callable[[str], AcidTable],
    store: Store,
    on: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TABLES rule 12: keys leave out rows that cannot match, of any type, in partitions, and NULL; nothing else changes."""
    kinds = {
        "i": "int",
        "s": "string",
        "c": "char(4)",
        "v": "varchar(4)",
        "d": "decimal(9,2)",
        "b": "bigint",
        "f": "double",
    }
    places = [(number, key, TEXTS[(number * 3) % len(TEXTS)]) for number, key in enumerate(KEYS * 3)]
    found = []
    for name, most in (("db.by_keys", 1000), ("db.by_all", -1)):
        table = store.create_table(name, kinds | {"n": "int", "p": "int", "q": "string"}, partitioned_by=["p", "q"])
        rows: list[dict[str, object]] = [
            {"i": key, "s": text, "c": text, "v": text, "d": quarter(key), "b": key, "n": number}
            | {"p": key, "q": text, "f": float("nan") if number % 5 == 0 else number / 2}
            for number, key, text in places
        ]
        table.append(pa.Table.from_pylist(rows, table.scan().to_arrow().schema))
        table.delete("n = 5")
        source = spark.createDataFrame(
            [
                (key, text, quarter(key), float("nan") if key == 0 else 1.5, number, 99)
                for number, (key, text) in enumerate(zip(KEYS[:6], TEXTS[1:7], strict=True))
            ],
            "i int, s string, d decimal(9,2), f double, n int, rowid long",
        )
        monkeypatch.setattr(merge_scan_filter, "MOST_KEYS", most)
        merge = acid(name).alias("t").merge(source.alias("s"), on)
        merge = merge.when_matched_update("t.n % 2 = 0", {"n": "t.n + 1000"}).when_matched_delete()
        changed = merge.when_not_matched_insert(values={"n": "s.n + 5000", "i": "s.i"})
        spark.conf.set("hive.merge.cardinality.check", "false")
        counts = changed.execute()
        seen = sorted(
            map(repr, store.load_table(name).scan(selected_fields=("n", "i", "s", "p", "q")).to_arrow().to_pylist())
        )
        found.append((counts, seen))
    spark.conf.unset("hive.merge.cardinality.check")
    assert found[0] == found[1]
    assert found[0][0].updated + found[0][0].deleted > 0


def test_only_stripes_and_partitions_with_keys_of_the_source_are_read(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store, warehouse: Path
) -> None:
    """TABLES rule 12."""
    filled(store, "db.keyed", **SHAPES["partitioned"])
    for path in (warehouse / "keyed" / "p=0").rglob("bucket_*"):
        path.write_bytes(b"not read" + path.read_bytes()[8:])
    source = spark.createDataFrame([("1", 7)], "p string, k long")
    merge = acid("db.keyed").alias("t").merge(source.alias("s"), "t.p = s.p and t.i = s.k")
    assert merge.when_matched_delete().execute() == Changed(deleted=1)


@pytest.mark.parametrize(
    ("source", "on"),
    [
        ("select cast(x'ff61' as string) as k union all select 'a'", "t.s = s.k"),  # no text, for Python
        ("select repeat('x', 200) as k union all select 'a'", "t.s = s.k"),
        ("select 'b' as k, 'a' as K, 'a' as w, 1L as z", "K = w and t.`i.d` = z"),  # other names where case counts
    ],
)
def test_keys_that_are_no_filter_leave_nothing_out(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store, source: str, on: str
) -> None:
    """TABLES rule 12. The table's columns have names that mean a field where they are not quoted."""
    store.create_table("db.odd", {"i.d": "bigint", "s": "string"}).append(pa.table({"i.d": [1, 2], "s": ["a", "b"]}))
    spark.conf.set("spark.sql.caseSensitive", str(" as K" in source).lower())
    try:
        merge = acid("db.odd").alias("t").merge(spark.sql(source).alias("s"), on)
        assert merge.when_matched_update(set={"s": "'new'"}).execute() == Changed(updated=1)
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert rows_of(store, "db.odd") == [(1, "new"), (2, "b")]


@pytest.mark.usefixtures("store")
def test_too_many_keys_for_a_filter_leave_nothing_out(spark: SparkSession, acid: Callable[[str], AcidTable]) -> None:
    """TABLES rule 12: the text of a filter has a longest length, which fewer keys than the most may exceed."""
    count = 80_000
    assert count < merge_scan_filter.MOST_KEYS
    assert count * len(f"{10**12}, ") > merge_scan_filter.LONGEST
    source = spark.range(2, 9).union(spark.range(10**12, 10**12 + count))
    merge = acid("db.t").alias("t").merge(source.alias("s"), "t.i = s.id")
    assert merge.when_matched_delete().execute() == Changed(deleted=2)


def test_each_thread_of_a_program_changes_and_writes_rows(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store, config: str
) -> None:
    """Spark looks for the source of a write in the active session of a thread, and threads of Python begin without one."""

    def write() -> None:
        register(spark)
        frame = spark.range(7, 8).selectExpr("id as i", "'c' as s")
        frame.write.format("hive_acid").options(table="db.t", config=config).mode("append").save()

    def in_a_thread(work: Callable[[], object]) -> object:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work).result()

    assert in_a_thread(lambda: acid("db.t").delete("i = 1")) == Changed(deleted=1)
    in_a_thread(write)
    in_a_thread(lambda: sql(spark, "update db.t set s = 'd' where i = 2", config=config))
    assert rows_of(store, "db.t") == [(2, "d"), (3, None), (7, "c")]


@pytest.mark.usefixtures("store")
def test_what_no_statement_may_do_is_refused_and_leaves_no_transaction(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store, open_agents: Callable[[], list[str]]
) -> None:
    """TABLES rule 9, and the limits of tables."""
    filled(store, "db.limits", **SHAPES["both"])
    before = rows_of(store, "db.limits"), len(open_agents())
    ours = acid("db.limits")
    with pytest.raises(NotSupported, match="p is a partition column"):
        ours.update(set={"P": "'x'"})
    with pytest.raises(NotSupported, match="i is a bucketing column"):
        ours.merge(spark.range(3), "i = id").when_matched_update(set={"i": "id"}).execute()
    with pytest.raises(NotFound, match="no column 'x'"):
        ours.update(set={"x": "1"})
    with pytest.raises(NotFound, match="no column 'x'"):
        ours.merge(spark.range(3), "i = id").when_not_matched_insert(values={"x": "id"}).execute()
    with pytest.raises(NotFound, match=r"db\.nothing"):
        acid("db.nothing").delete()
    with pytest.raises(Refused, match="no clause"):
        ours.merge(spark.range(3), "i = id").execute()
    with pytest.raises(NotConforming, match=r"column v: the row with ROW__ID .*'much': it is not a value"):
        ours.update("i = 7", {"v": "if(i = 7, 'much', '1')"})
    moved = spark.createDataFrame([(7, 0, "0")], "i long, v int, p string")
    with pytest.raises(NotConforming, match="column p decides in which partition"):
        ours.merge(moved.alias("s"), "s.i = limits.i").when_matched_update_all().execute()
    with pytest.raises(Exception, match=r"(?i)resolve"):
        ours.delete("no_such_column = 1")
    assert (rows_of(store, "db.limits"), len(open_agents())) == before


def test_a_partition_that_cannot_match_is_not_read(
    spark: SparkSession, acid: Callable[[str], AcidTable], store: Store, warehouse: Path
) -> None:
    """TABLES rule 12: conditions are pushed for the time of a statement, whatever the session says."""
    filled(store, "db.pushed", **SHAPES["partitioned"])
    for path in (warehouse / "pushed" / "p=0").rglob("bucket_*"):
        path.write_bytes(b"not read" + path.read_bytes()[8:])
    assert acid("db.pushed").delete("p = '1' and v < 8") == Changed(deleted=3)
    assert spark.conf.get("spark.sql.python.filterPushdown.enabled") == "false"
