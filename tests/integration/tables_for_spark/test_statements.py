"""Statements that read and write in one transaction, beside transactions of others, in a real Spark."""

from __future__ import annotations

import datetime
import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from compactor.base.errors import LockNotGranted, NotConforming, WriteConflict
from compactor.base.steps import TransactionStep
from compactor.metastore.locks.lock_rows import LockState
from compactor.site.site import Site
from compactor.spark_tables import AcidTable, snapshot, sql
from compactor.spark_tables.acid_table import Merge
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_folder import Folder
from compactor.tables import Store
from compactor.tables.sql.run_statements import check_text
from compactor.tables.sql.run_statements import run as run_statements
from tests.integration.tables_for_spark.conftest import hidden, keeper_of
from tests.support.interleaving import interleaving
from tests.support.passes import time_out_all
from tests.support.patience import until
from tests.support.spark_sessions import local_session, pid_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_session(tmp_path_factory.mktemp("spark")) as session:
        yield session
        jvm = find_process(pid_of(session))
    until("the end of the keeper", lambda: keeper_of(Folder(jvm)) is None)


@pytest.fixture
def run(spark: SparkSession, config: str) -> Callable[..., list[tuple[Any, ...]]]:
    """Runs SQL, and returns the rows of the last statement."""

    def rows(text: str, **options: Any) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, sql(spark, text, database="db", config=config, **options).collect()), key=repr)

    return rows


@pytest.fixture
def read(spark: SparkSession, config: str) -> Callable[..., DataFrame]:
    def table(name: str, **options: str) -> DataFrame:
        return spark.read.format("hive_acid").options(table=name, config=config, **options).load()

    return table


@pytest.fixture
def save(config: str) -> Callable[..., None]:
    def table(frame: DataFrame, name: str, mode: str = "overwrite", **options: Any) -> None:
        frame.write.format("hive_acid").options(table=name, config=config, **options).mode(mode).save()

    return table


def rows_of(store: Store, name: str) -> list[tuple[Any, ...]]:
    found = store.load_table(name).scan().to_arrow().to_pylist()
    return sorted((tuple(row.values()) for row in found), key=repr)


def numbers(store: Store, name: str, **more: Any) -> None:
    """A table of three rows ``(id, n)``, of which n is 0."""
    table = store.create_table(name, {"id": "int", "n": "int"}, **more)
    table.append(pa.table({"id": [1, 2, 3], "n": [0, 0, 0]}))


def is_waited_for(site: Site, table: str) -> bool:
    return any(row.table == table and row.state is LockState.WAITING for row in site.metastore.locks.show())


def beside(store: Store, table: str, other: Callable[[Any], object], statement: Callable[[], Any]) -> Any:
    """Runs ``statement``, which waits for the lock of a transaction in which ``other`` changes the table, and commits that
    once it does."""
    with ThreadPoolExecutor(1) as pool, store.transaction() as txn:
        other(txn.load_table(f"db.{table}"))
        running = pool.submit(statement)
        until("the statement waits for the lock", lambda: running.done() or is_waited_for(store.site, table))
    return running.result()


def updated(table: Any) -> None:
    table.update({"n": "7"}, "id = 1")


def appended(table: Any) -> None:
    table.append(pa.table({"id": [9], "n": [7]}))


@pytest.mark.parametrize(
    ("statement", "other", "left"),
    [
        ("insert overwrite u select id, n from u where id <> 2", updated, [(1, 7), (3, 0)]),
        ("insert overwrite u select id, n from u where id <> 2", appended, [(1, 0), (3, 0), (9, 7)]),
        ("insert overwrite u select x.id, y.n from u x join u y on x.id = y.id", updated, [(1, 7), (2, 0), (3, 0)]),
        ("insert overwrite p select id, n from p where id <> 2", appended, [(1, 0), (3, 0), (9, 7)]),
        (
            "merge into u using (select id, n + 1 as m from u) s on u.id = s.id when matched then update set n = m",
            updated,
            None,
        ),
        (
            "merge into u using u as s on u.id = s.id when matched then update set n = s.n + 1 "
            "when not matched then insert values (s.id, s.n)",
            appended,
            [(1, 1), (2, 1), (3, 1), (9, 8)],
        ),
        ("update u set n = n + 1 where n = (select max(n) from u)", updated, None),
        (
            "with q as (select id, n from u where id <> 2), r as (select q.* from q join u on q.id = u.id) "
            "insert overwrite u select id, n from r",
            updated,
            [(1, 7), (3, 0)],
        ),
        ("insert overwrite p select id, n from p where n = 0 and id > 1", appended, [(2, 0), (3, 0), (9, 7)]),
        (
            "insert into u select x.id + 10, y.n from u x join u y on x.id = y.id",
            updated,
            [(1, 7), (11, 0), (12, 0), (13, 0), (2, 0), (3, 0)],
        ),
    ],
)
def test_what_a_statement_reads_is_seen_after_its_lock(
    run: Callable[..., Any], store: Store, statement: str, other: Callable[[Any], object], left: list[Any] | None
) -> None:
    """PROTOCOL 14.28; of two that share the lock of an UPDATE the one that commits first wins."""
    numbers(store, "db.u")
    numbers(store, "db.p", partitioned_by=["n"])
    name = "p" if "overwrite p" in statement else "u"
    if left is None:
        with pytest.raises(WriteConflict):
            beside(store, name, other, lambda: run(statement))
        assert rows_of(store, "db.u") == [(1, 1), (2, 1), (3, 1)]
    else:
        beside(store, name, other, lambda: run(statement))
        assert rows_of(store, f"db.{name}") == left


def test_a_statement_that_inserts_locks_what_it_reads_before_it_looks(run: Callable[..., Any], store: Store) -> None:
    """PROTOCOL 14.28: what was altered while it waited is read as it is then; several INSERTs and new tables as well."""
    for name in ("db.u", "db.v", "db.w"):
        numbers(store, name)

    def locked(statement: str) -> None:
        beside(store, "u", lambda table: table.overwrite(pa.table({"id": [5], "n": [7]})), lambda: run(statement))

    locked("insert overwrite v select id, n from u")
    locked("create table made as select id, n from u")
    locked("from u insert into v select id, n + 1 insert into w select id, n where id = 5")
    assert rows_of(store, "db.v") in ([(5, 7), (5, 8)], [(1, 0), (2, 0), (3, 0), (5, 8)])
    assert rows_of(store, "db.made") == [(5, 7)]
    assert (5, 7) in rows_of(store, "db.w")


def test_a_statement_that_inserts_looks_at_its_target_under_its_lock(run: Callable[..., Any], store: Store) -> None:
    """PROTOCOL 14.25: what waited behind an ALTER has the columns that the table has then."""
    numbers(store, "db.u")
    with interleaving() as stage, ThreadPoolExecutor(1) as pool:
        altering = stage.begin(lambda: define(store, "alter table db.u add columns (note string)"))
        altering.run_to(TransactionStep.LOCKED)
        running = pool.submit(lambda: run("insert into u select 9, 8, 'a'"))
        until("the statement waits for the lock", lambda: running.done() or is_waited_for(store.site, "u"))
        altering.end()
        running.result()
    assert rows_of(store, "db.u") == [(1, 0, None), (2, 0, None), (3, 0, None), (9, 8, "a")]


def test_a_merge_inserts_into_the_columns_that_its_target_has_under_its_lock(
    run: Callable[..., Any], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 14.25: the values of a row went to the columns of a table that was gone."""
    merge = "merge into u using (select 9 as a, 8 as b) s on u.id = s.a when not matched then insert values (s.a, s.b)"
    for text, columns, left in (
        (merge, {"n": "int", "id": "int"}, [(9, 8)]),
        (merge.replace("insert", "insert (id, n)"), {"n": "int", "id": "int"}, [(8, 9)]),
        (merge, {"id": "int", "n": "int", "note": "string"}, None),
    ):
        numbers(store, "db.u")

        def execute(merge: Merge, columns: dict[str, str] = columns, original: Any = Merge.execute) -> Any:
            store.drop_table("db.u", purge=True)
            store.create_table("db.u", columns)
            return original(merge)

        with monkeypatch.context() as patched:
            patched.setattr(Merge, "execute", execute)
            if left is None:
                with pytest.raises(NotConforming, match="a row has 2 values; expected are 3, for id, n, note"):
                    run(text)
            else:
                run(text)
        assert rows_of(store, "db.u") == (left or [])
        store.drop_table("db.u", purge=True)


def test_rows_from_an_older_frame_take_no_others_place(
    spark: SparkSession,
    run: Callable[..., Any],
    read: Callable[..., DataFrame],
    save: Callable[..., None],
    store: Store,
    config: str,
    warehouse: Path,
) -> None:
    """PROTOCOL 14.29: neither by an overwrite nor by a merge, also of partitions and in batches of a program."""
    numbers(store, "db.u")
    numbers(store, "db.p", partitioned_by=["n"])
    frames = {name: read(f"db.{name}") for name in ("u", "p")}
    assert frames["u"].count() == 3
    save(frames["u"], "db.u")  # all that is replaced was seen
    frames["u"] = read("db.u")
    for name in frames:
        appended(store.load_table(f"db.{name}"))
    old = frames["u"]
    for rows in (
        old,
        old.selectExpr("id", "n + 1 as n"),
        old.union(old),
        old.join(read("db.u").selectExpr("id", "n as m"), "id").select("id", "n"),
        old.groupBy("id").agg({"n": "max"}).toDF("id", "n"),
    ):
        with pytest.raises(Exception, match=r"WriteConflict: db\.u: transaction \d+ wrote into it after the DataFrame"):
            save(rows, "db.u")
    with pytest.raises(Exception, match=r"WriteConflict: db\.p"):
        save(frames["p"].filter("id = 1"), "db.p")
    with pytest.raises(Exception, match=r"WriteConflict: db\.u"):
        save(old, "db.u", stream="mine", batch=1)
    table = AcidTable.for_name(spark, "db.u", config=config)
    merge = table.alias("t").merge(old.selectExpr("id", "n + 1 as m").alias("s"), "t.id = s.id")
    with pytest.raises(WriteConflict, match="load the table again"):
        merge.when_matched_update(set={"n": "m"}).execute()
    assert hidden(warehouse) == []
    assert rows_of(store, "db.u") == [(1, 0), (2, 0), (3, 0), (9, 7)]
    save(old, "db.u", mode="append")
    save(old, "db.p", mode="append")
    other = spark.createDataFrame([(4, 4)], "id int, n int")
    save(other, "db.u")
    assert rows_of(store, "db.u") == [(4, 4)]
    current = read("db.u")
    save(current.union(other), "db.u")
    assert rows_of(store, "db.u") == [(4, 4), (4, 4)]


def test_statements_under_a_snapshot_lose_no_row_that_it_does_not_see(
    spark: SparkSession, run: Callable[..., Any], store: Store, config: str
) -> None:
    numbers(store, "db.u")
    numbers(store, "db.v")
    with snapshot(spark, config=config) as name:
        assert len(run("select * from u", snapshot=name)) == 3
        run("insert into u select id + 10, n from u", snapshot=name)
        for text in (
            "insert overwrite u select id + 1, n + 1 from u",
            "merge into u using u s on u.id = s.id when matched then update set n = s.n + 1",
        ):
            with pytest.raises(WriteConflict, match="was loaded"):
                run(text, snapshot=name)
        assert len(rows_of(store, "db.u")) == 6
        run("insert overwrite v select id, n + 1 from u", snapshot=name)
    assert rows_of(store, "db.v") == [(1, 1), (2, 1), (3, 1)]
    run("insert overwrite u select id, n from u where id > 10")
    assert rows_of(store, "db.u") == [(11, 0), (12, 0), (13, 0)]


def test_a_statement_that_fails_after_it_has_begun_leaves_no_transaction(
    run: Callable[..., Any], store: Store, open_agents: Callable[[], list[str]]
) -> None:
    numbers(store, "db.u")
    before = open_agents()
    for text in (
        "insert overwrite u select id from u",
        "insert overwrite u select id, cast(raise_error('broken') as int) from u",
        "create table lost as select id + 1 from u",
        "merge into u using (select missing from u) s on u.id = s.missing when matched then delete",
    ):
        with pytest.raises(Exception, match=r"columns|broken|give it a name|missing"):
            run(text)
    assert open_agents() == before
    assert len(rows_of(store, "db.u")) == 3


def test_fields_of_structs_are_assigned_by_name(
    spark: SparkSession, run: Callable[..., Any], store: Store, config: str
) -> None:
    """PROTOCOL 14.3: at every depth and in any case; a field too many or too few is refused by its path."""
    kind = "struct<name:string,city:string>"
    store.create_table("db.n", {"id": "int", "s": kind, "a": f"array<{kind}>", "m": f"map<string,{kind}>"})
    schema = "id int, s struct<City:string,NAME:string>"
    source = spark.createDataFrame([(1, ("Paris", "Ann")), (2, ("Rome", "Bob"))], schema)
    table = AcidTable.for_name(spark, "db.n", config=config)
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.when_not_matched_insert(values={"id": "s.id", "s": "s.s", "a": "array(s.s)", "m": "map('k', s.s)"}).execute()
    ann, bob = {"name": "Ann", "city": "Paris"}, {"name": "Bob", "city": "Rome"}
    assert rows_of(store, "db.n") == [(1, ann, [ann], [("k", ann)]), (2, bob, [bob], [("k", bob)])]
    run("update n set s = named_struct('city', 'Oslo', 'Name', 'Eve'), a = null where id = 1")
    merge.when_matched_update("s.id = 2", {"s": "named_struct('CITY', 'Bonn', 'name', s.s.name)"}).execute()
    eve, other = {"name": "Eve", "city": "Oslo"}, {"name": "Bob", "city": "Bonn"}
    assert rows_of(store, "db.n") == [(1, eve, None, [("k", ann)]), (2, other, [bob], [("k", bob)])]
    for text, path in (
        ("s = named_struct('name', 'Eve')", r"column s\.city: is missing"),
        ("a = array(named_struct('name', 'x', 'city', 'y', 'zip', 'z'))", r"column a\.element: has no field 'zip'"),
        ("m = map('k', struct('x', 'y'))", r"column m\.value: has no field 'col1'"),
    ):
        with pytest.raises(NotConforming, match=path):
            run(f"update n set {text}")


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_that_do_not_fit_fail_a_statement_at_every_depth(
    spark: SparkSession, run: Callable[..., Any], store: Store, ansi: str
) -> None:
    """PROTOCOL 14.3: a value is never made NULL, and a NULL stays one; equal values of other types are taken."""
    kinds = {"id": "int", "l": "array<int>", "m": "map<string,tinyint>", "d": "array<date>", "b": "bigint"}
    store.create_table("db.c", kinds | {"x": "decimal(5,2)", "t": "timestamp", "s": "string"})
    store.load_table("db.c").append(pa.table({"id": [1, 2]}))
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        for text, said in (
            ("l = array('1', 'much', '3')", r"column l\.element: the row with ROW__ID \(1, \d+, 0\): 'much'"),
            ("l = array(3000000000L)", r"column l\.element: .*3000000000"),
            ("m = map('k', 300)", r"column m\.value: .*300"),
            ("d = array('2026-02-30', '2026-02-28')", r"column d\.element: .*'2026-02-30'"),
            ("b = 'much'", "column b: .*'much'"),
            ("b = 2.5", r"column b: .*2\.5"),
            ("x = 1000", "column x: .*1000"),
        ):
            with pytest.raises(NotConforming, match=said):
                run(f"update c set {text}")
            with pytest.raises(NotConforming, match=said.replace(r"\(1, \d+, 0\)", ".*")):
                run(f"merge into c using (select 1 as k) s on c.id = k when matched then update set {text}")
        assert rows_of(store, "db.c") == [(1, *[None] * 7), (2, *[None] * 7)]
        assert run(
            "update c set l = array('1', null), m = null, d = array('2026-02-28'), b = '7', x = 1.5D, s = id, "
            "t = timestamp'2026-01-01 12:00:00 UTC' where id = 1"
        ) == [("UPDATE", "db.c", 1)]
        spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
        run("update c set t = timestamp'2026-01-01 12:00:00 UTC', l = array() where id = 2")
        merged = "when matched and c.id = 1 then update set b = '8' when matched then update set b = 9.0"
        run(f"merge into c using (select 1 as k union all select 2) s on c.id = k {merged}")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
        spark.conf.unset("spark.sql.session.timeZone")
    first, second = store.load_table("db.c").scan(timestamps="us").to_arrow().to_pylist()
    assert first["l"] == [1, None]
    assert first["d"] == [datetime.date(2026, 2, 28)]
    assert (first["b"], first["x"], first["s"]) == (8, Decimal("1.50"), "1")
    assert (second["b"], second["l"]) == (9, [])
    assert second["t"] == datetime.datetime(2026, 1, 1, 13)


def test_a_program_is_in_its_own_way_only_with_what_it_still_has(
    spark: SparkSession,
    run: Callable[..., Any],
    read: Callable[..., DataFrame],
    store: Store,
    config: str,
    open_agents: Callable[[], list[str]],
) -> None:
    """PROTOCOL 13.8."""
    gc.collect()
    numbers(store, "db.u")
    numbers(store, "db.v")
    before = len(open_agents())
    for text in ("select * from u", "select u.id from u join v on u.id = v.id"):
        run(text)
        until("the snapshot of a query that was answered ends", lambda: len(open_agents()) <= before)
    frame = sql(spark, "select id from db.u where n = 0", config=config).filter("id > 1")
    gc.collect()
    assert frame.count() == 2
    for statement in ("alter table u add columns (m int)", "drop table u"):
        with pytest.raises(
            LockNotGranted, match=r"this program itself still reads db\.u, in transaction \d+: .*snapshot"
        ):
            run(statement)
    run("drop table v")
    assert frame.count() == 2
    frame.createOrReplaceTempView("seen")
    del frame
    gc.collect()
    with pytest.raises(LockNotGranted, match="this program itself"):
        run("drop table u")
    spark.catalog.dropTempView("seen")
    numbers(store, "db.w")
    with snapshot(spark, config=config) as name:
        assert len(run("select id from w", snapshot=name)) == 3
        with pytest.raises(LockNotGranted, match="this program itself"):
            run("drop table w")
    run("select w.id from w; alter table w add columns (m int); drop table w")
    run("drop table u")  # no view reads it any more
    numbers(store, "db.x")
    circle = [sql(spark, "select id from db.x", config=config)]
    circle.append(circle)  # type: ignore[arg-type]
    del circle
    run("drop table x")


def test_what_was_loaded_shows_no_other_table(
    spark: SparkSession,
    read: Callable[..., DataFrame],
    run: Callable[..., Any],
    store: Store,
    config: str,
    tmp_path: Path,
) -> None:
    """PROTOCOL 13.8, 14.23, 14.25: frames, queries, changes and streams of a table that is renamed, and of another one that
    gets its name and has its columns in another order."""
    store.create_table("db.r", {"a": "int", "b": "int"}).append(pa.table({"a": [1, 2], "b": [10, 20]}))

    def arriving() -> DataFrame:
        return spark.readStream.format("hive_acid").options(table="db.r", config=config).load()

    def arrive(frame: DataFrame, checkpoint: str) -> list[int]:
        query = frame.select("a").writeStream.format("memory").queryName(checkpoint)
        query = query.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()
        return sorted(row.a for row in spark.table(checkpoint).collect())

    table = AcidTable.for_name(spark, "db.r", config=config)
    unplanned, planned = read("db.r"), read("db.r").select("a")
    query = sql(spark, "select a from db.r where b > 0", config=config)
    stream = arriving()
    assert sorted(row.a for row in planned.collect()) == [1, 2]
    assert arrive(stream, "before") == [1, 2]
    store.load_table("db.r").append(pa.table({"a": [3], "b": [30]}))
    time_out_all(store.site)  # nothing protects the frames any more, and whoever renames waits for nobody

    define(store, "alter table db.r rename to db.q")
    for refused in (
        lambda: run("select a from db.r"),
        lambda: run("insert into t select a, 'x' from r"),
        lambda: read("db.r"),
        lambda: table.update(set={"b": "a"}),
        lambda: arrive(stream, "renamed"),
    ):
        with pytest.raises(Exception, match=r"table db\.r is not in the metastore"):
            refused()
    assert rows_of(store, "db.q") == [(1, 10), (2, 20), (3, 30)]

    define(store, "drop table db.q purge")
    store.create_table("db.r", {"b": "int", "a": "int"}).append(pa.table({"b": [1], "a": [100]}))
    for frame in (unplanned, planned, query):  # there are files of the same names
        with pytest.raises(Exception, match="SnapshotExpired"):
            frame.collect()
    with pytest.raises(Exception, match="re-created; load it again"):
        arrive(stream, "anew")
    assert run("select a from db.r") == [(100,)]
    assert arrive(arriving(), "again") == [100]
    table.update("b = 1", {"b": "a + 1"})
    run("insert overwrite r (a, b) select a, b from r")
    assert rows_of(store, "db.r") == [(101, 100)]


def test_what_was_loaded_shows_no_other_table_with_the_same_partitions(
    read: Callable[..., DataFrame], run: Callable[..., Any], store: Store
) -> None:
    """PROTOCOL 14.23: directories and files have the same names and lengths."""
    numbers(store, "db.p", partitioned_by=["n"])
    frame = read("db.p").filter("n = 0")
    assert frame.count() == 3
    assert sorted(row.id for row in frame.collect()) == [1, 2, 3]  # Spark keeps what it has planned
    time_out_all(store.site)
    define(store, "drop table db.p purge")
    store.create_table("db.p", {"id": "int", "n": "int"}, partitioned_by=["n"])
    store.load_table("db.p").append(pa.table({"id": [4, 5, 6], "n": [0, 0, 0]}))
    for action in (frame.collect, frame.count, lambda: frame.write.format("noop").mode("overwrite").save()):
        with pytest.raises(Exception, match="SnapshotExpired"):
            action()
    assert run("select id, n from db.p") == [(4, 0), (5, 0), (6, 0)]


def test_a_stream_writes_into_the_table_that_it_reads(
    spark: SparkSession, run: Callable[..., Any], save: Callable[..., None], store: Store, config: str, tmp_path: Path
) -> None:
    """Each batch sees what was there before it, and what one has written arrives in a later one."""
    numbers(store, "db.u")
    table = AcidTable.for_name(spark, "db.u", config=config)
    seen: list[list[int]] = []

    def arrive(write: Callable[[DataFrame, int], object]) -> None:
        def write_batch(rows: DataFrame, number: int) -> None:
            seen.append(sorted(row.id for row in rows.collect()))
            write(rows, number)

        source = spark.readStream.format("hive_acid").options(table="db.u", config=config).load()
        query = source.writeStream.option("checkpointLocation", str(tmp_path / "seen"))
        query.foreachBatch(write_batch).trigger(availableNow=True).start().awaitTermination()

    def add(rows: DataFrame, number: int) -> None:
        later = rows.selectExpr("id + 10 as id", "n")
        for _ in range(2):
            save(later, "db.u", mode="append", stream="itself", batch=number)

    def merge(rows: DataFrame, number: int) -> None:
        merging = table.alias("t").merge(rows.selectExpr("id", "n + 1 as m").alias("s"), "t.id = s.id")
        merging.when_matched_update(set={"n": "m"}).execute()

    arrive(add)
    assert seen == [[1, 2, 3]]
    arrive(merge)
    assert seen == [[1, 2, 3], [11, 12, 13]]
    assert rows_of(store, "db.u") == [(1, 0), (11, 1), (12, 1), (13, 1), (2, 0), (3, 0)]
    arrive(lambda rows, number: run("update u set n = 5 where id = 1"))
    assert seen[2:] == [[11, 12, 13]]
    arrive(lambda rows, number: run("insert overwrite u select id, n from u where id < 12"))
    assert seen[3:] == [[1]]
    assert rows_of(store, "db.u") == [(1, 5), (11, 1), (2, 0), (3, 0)]


def define(store: Store, text: str) -> None:
    for _ in run_statements(store.site, check_text(text)):
        pass
