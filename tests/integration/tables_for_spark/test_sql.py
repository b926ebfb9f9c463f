"""SQL in one session of Spark: queries under one snapshot, INSERT ... SELECT, and what needs no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import BadExpression, BadStatement, NotConforming, NotFound, NotSupported, Refused
from compactor.site.site import Site
from compactor.tables import Store
from tests.support.spark_sessions import local_session

pytestmark = [pytest.mark.whole, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture
def spark(
    deployment: Site, warehouse: Path, metastore_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A session; ``d.t(a, b)`` has three rows, ``d.s(a, c)`` two, ``d.p(a, b) partitioned by (day)`` none."""
    store = Store(deployment)
    store.create_database("d", str(warehouse))
    store.create_table("d.t", {"a": "int", "b": "string"}).append(pa.table({"a": [1, 2, 3], "b": ["x", "y{0}", None]}))
    store.create_table("d.s", {"a": "int", "c": "int"}).append(pa.table({"a": [1, 3], "c": [10, 30]}))
    store.create_table("d.p", {"a": "int", "b": "string", "day": "date"}, partitioned_by=["day"])
    monkeypatch.setenv("COMPACTOR_METASTORE_URL", metastore_url)
    with local_session(tmp_path) as session:
        yield session


def collect_rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def test_sql_in_a_session(spark: Any, deployment: Site) -> None:
    """TABLES 11 and 15; one test, since a session takes longer than all of it."""
    from compactor.spark_tables import snapshot, sql

    def asked(text: str) -> list[tuple[Any, ...]]:
        return collect_rows(sql(spark, text, database="d"))

    # queries: joins, subqueries, names that a WITH hides, texts with braces
    assert asked("select t.a, c from t join d.s on t.a = s.a where lower(b) = 'x' or c > 5") == [(1, 10), (3, 30)]
    assert asked("with t as (select a + 1 as a from t) select x.a from t x where x.a in (select a from s)") == [(3,)]
    assert asked("select count(*) from t one join t two on one.a = two.a") == [(3,)]
    assert asked("select a from t where b = 'y{0}'") == [(2,)]
    assert asked("select 'a{b}' as c") == [("a{b}",)]
    assert asked("use d; select max(a) from t") == [(3,)]
    # inserts
    assert asked("insert into p partition (day='2026-11-01') select a, b from t where a < 3") == [
        ("INSERT INTO … SELECT", "d.p")
    ]
    asked("insert into p select a, cast(c as string), date'2026-11-02' from s")
    assert asked("select a, b, cast(day as string) from p where a > 1") == [
        (2, "y{0}", "2026-11-01"),
        (3, "30", "2026-11-02"),
    ]
    asked("insert overwrite p select 7, 'new', date'2026-11-02'")
    asked("insert into t (b, a) values (concat('a', 'b'), 4)")
    asked("with q as (select a from s) insert into t select a + 10, 'q' from q")
    assert asked("select a, b from t where a > 3") == [(11, "q"), (13, "q"), (4, "ab")]
    # what needs no Spark
    assert asked("show partitions p") == [("day=2026-11-01",), ("day=2026-11-02",)]
    assert asked("update t set b = 'u' where a = 4; select b from t where a = 4") == [("u",)]
    assert asked("start transaction; delete from t where a > 3; select count(*) from t; rollback")[0][0] == "ROLLBACK"
    assert asked("select count(*) from t") == [(6,)]
    assert asked("show tables like 'nothing'") == []
    # one snapshot for several texts
    with snapshot(spark) as name:
        before = sql(spark, "select count(*) from d.t", snapshot=name).collect()
        asked("delete from t where a > 3")
        assert sql(spark, "select count(*) from d.t, (select 1) x", snapshot=name).collect() == before
    assert asked("select count(*) from t") == [(3,)]
    # versions: the last write was the delete
    last = Store(deployment).load_table("d.t").version()
    old = f"for system_version as of {last - 1}"
    assert asked("select a from t for system_version as of 1 where b = 'x' limit 2") == [(1,)]
    assert asked(f"select count(*) from t {old}") == [(6,)]
    assert asked(f"select x.a from t {old} x left anti join t on x.a = t.a") == [(11,), (13,), (4,)]
    assert asked(f"with q as (select a from t {old}) select max(q.a) from q, t where q.a > t.a") == [(13,)]
    assert sql(spark, f"select a from d.t {old}").schema["a"].dataType.simpleString() == "int"
    asked(f"create table old_rows as select a from t {old} where a > 3")
    asked(f"insert into old_rows select t.a from t {old} join t now on t.a = now.a")
    assert asked("select a from old_rows") == [(1,), (11,), (13,), (2,), (3,), (4,)]
    asked("start transaction; select a from t for system_version as of 1; commit")
    asked("insert overwrite table old_rows select a from old_rows for system_version as of 1")
    assert asked("select a from old_rows") == [(11,), (13,), (4,)]
    read = spark.read.format("hive_acid").options(table="d.t", versionAsOf=str(last - 1)).load()
    assert read.count() == 6
    read.select("a").write.format("hive_acid").option("table", "d.old_rows").mode("overwrite").save()
    back = spark.read.format("hive_acid").options(table="d.old_rows", versionAsOf="4").load()
    asked("delete from old_rows where a > 3")
    back.write.format("hive_acid").option("table", "d.old_rows").mode("overwrite").save()  # the delete is undone
    assert asked("select count(*) from old_rows") == [(6,)]
    for text, said in (
        (f"select a from t for system_version as of {last + 1}", f"version {last + 1} is not available: expected"),
        ("select x.a from old_rows for system_version as of 1 x", "version 1 can no longer be read"),
        ("select a from t version as of 1", "a version is only read after a table's name"),
        ("delete from t where a in (select a from t for system_version as of 1)", "not in UPDATE and DELETE"),
    ):
        with pytest.raises(Exception, match=said):
            asked(text)
    # refusals, before anything is done
    for text, error, said in (
        ("delete from t; select * from (table s)", BadStatement, "TABLE s at line 1"),
        ("delete from t; update t set a = (select max(a) from s)", NotSupported, "query at line 1, character 34"),
        (
            "delete from t; start transaction; delete from t where a in (select a from s); commit",
            NotSupported,
            "line 1, character 35 needs Spark, outside of transactions",
        ),
        ("delete from t; start transaction; delete from t where lower(b) = 'x'; commit", BadExpression, "character 35"),
        (
            "delete from t; start transaction; merge into t using s on t.a = s.a when matched then delete; commit",
            BadStatement,
            "not allowed in a",
        ),
        ("delete from t; start transaction; insert into t select * from s; commit", BadStatement, "not allowed in a"),
    ):
        with pytest.raises(error, match=said):
            asked(text)
    for text, refused, said in (
        ("insert into t select a from s", NotConforming, "the query has 1 columns; expected are 2, for a, b"),
        ("insert overwrite p partition (day='2026-11-01') select a, b from t", NotSupported, "as dynamic partitions"),
        ("insert into nowhere select 1", NotFound, "nowhere"),
        (
            "merge into t using s on t.a = s.a when not matched then insert values (1)",
            NotConforming,
            "a row has 1 values",
        ),
        ("merge into t using s on t.a = s.a when not matched then insert (q) values (1)", NotFound, "no column 'q'"),
        ("merge into t using s on true when matched then update set b = 'q'", Refused, "cardinality"),
        ("update p set day = date'2026-11-05'", NotSupported, "day"),
    ):
        with pytest.raises(refused, match=said):
            asked(text)
    assert asked("select count(*) from t") == [(3,)]
    assert deployment.metastore.catalog.names() == [("d", name) for name in ("old_rows", "p", "s", "t")]
    rows_change(asked)
    conditions_have_queries(spark, asked)
    tables_are_created(asked, deployment)
    several_tables_are_written(asked)


def rows_change(asked: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """Expressions of changes are Spark's, as those of queries are."""
    assert asked("update t x set x.b = concat('u', a * 2), a = a where lower(x.b) = 'x'") == [("UPDATE", "d.t", 1)]
    assert asked("delete from p where extract(day from day) = 1 and length(b) = 1") == [("DELETE", "d.p", 1)]
    assert asked(
        "merge into t using (select a, c from s union all select 5, 50) as u on t.a = u.a -- the source's ) is no end\n"
        "when matched and case when u.c > 20 then true else false end then delete "
        "when matched then update set b = case when t.b = 'u2' then concat(t.b, ')', u.c) end "
        "when not matched then insert values (u.a, cast(u.c + 1 as string))"
    ) == [("MERGE", "d.t", 1, 1, 1)]
    assert asked("select a, b from t") == [(1, "u2)10"), (2, "y{0}"), (5, "51")]
    assert asked(
        "merge into p using s on p.a = s.a + 1 when matched then update set b = 'seen' "
        "when not matched and s.c = 30 then insert (day, a) values (date'2026-11-03', s.a)"
    ) == [("MERGE", "d.p", 0, 1, 1)]
    assert asked("select a, b, cast(day as string) from p") == [
        (2, "seen", "2026-11-01"),
        (3, None, "2026-11-03"),
        (7, "new", "2026-11-02"),
    ]


def conditions_have_queries(spark: Any, asked: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """TABLES 11: what a condition reads is seen as the rows that change are, the table itself included."""
    before = asked("select a, b from t")
    asked("create table q as select a, b as k, a * 2 as n, 'kept' as x from t union all select 7, null, 70, '{y}'")
    assert asked("delete from q where a in (select a from s) and x <> '{y}'") == [("DELETE", "d.q", 1)]
    assert asked("delete from d.q where a not in (select cast(null as int) as a union select a from s)")[0][2] == 0
    assert asked(
        "delete from q as o where exists (with w as (select c from s) select 1 from w where w.c = o.n + 16)"
    ) == [("DELETE", "d.q", 0)]
    assert asked("update q set n = -1 where n = (select max(q.n) from q)") == [("UPDATE", "d.q", 1)]
    assert asked("update q o set k = 'seen' where not exists (select * from d.t, s where t.a = o.a and o.n > 0)") == [
        ("UPDATE", "d.q", 1)
    ]
    assert asked("select a, k, n from q") == [(2, "y{0}", 4), (5, "51", 10), (7, "seen", -1)]
    assert asked("delete from q where n < (select avg(n) from q) or a in (select a from t where t.a = q.a)") == [
        ("DELETE", "d.q", 3)
    ]
    with pytest.raises(NotFound, match="nowhere"):
        asked("delete from q where a in (select a from nowhere)")
    with pytest.raises(Exception, match="missing"):
        asked("delete from q where a in (select missing from s)")
    assert asked("select a, b from t") == before
    assert [one.name for one in spark.catalog.listTables() if one.name.startswith("compactor_")] == []


def tables_are_created(asked: Callable[[str], list[tuple[Any, ...]]], deployment: Site) -> None:
    """PROTOCOL 14.24: with the rows of a query, or not at all; also where the query fails on an executor."""
    made = "create table {} partitioned by (day) as select t.a, upper(b) as b, cast('2026-11-01' as date) as day from t"
    assert asked(made.format("made")) == [("CREATE TABLE AS", "d.made", True)]
    assert asked("show partitions made") == [("day=2026-11-01",)]
    assert asked("select a, b from made") == [(1, "U2)10"), (2, "Y{0}"), (5, "51")]
    assert asked(made.format("if not exists made"))[0][2] is False
    for text, error, said in (
        (made.format("made"), Refused, "exists already"),
        ("create table lost as select a + 1 from t", NotConforming, "give it a name of letters"),
        ("create table lost as select a, a from t", NotConforming, "column 'a' twice"),
        ("create table lost as select a, now() as n from t", NotSupported, "is an instant"),
        ("create table lost as select a, null as b from t", NotSupported, "column b is a null"),
        ("create table lost as select a, cast(raise_error('broken') as int) as b from t", Exception, "broken"),
        ("create table d.lost partitioned by (q) as select a from t", Exception, "no column 'q'"),
    ):
        with pytest.raises(error, match=said):
            asked(text)
    assert not deployment.metastore.catalog.is_known("d", "lost")
    assert asked("create table lost as select 1 as a") == [("CREATE TABLE AS", "d.lost", True)]


def several_tables_are_written(asked: Callable[[str], list[tuple[Any, ...]]]) -> None:
    """In one transaction, and from one snapshot; a query behind FROM is evaluated once, however often it is read."""
    asked("create table x (a int, b string); create table y (a int, k string) partitioned by (day date)")
    found = asked(
        "from t join d.s on t.a = s.a insert into x select t.a, 'joined' where s.c > 0 "
        "insert into y partition (day='2026-11-07') (k, a) select t.b, s.c"
    )
    assert found == [("MULTI INSERT", "d.x"), ("MULTI INSERT", "d.y")]
    joined = asked("select t.a from t join d.s on t.a = s.a")
    assert asked("select a from x where b = 'joined'") == joined
    assert len(asked("select a from y where day = date'2026-11-07'")) == len(joined)
    asked(
        "from (select id as a, rand() as r from range(2000)) as q insert into x (a) select a where r < 0.5 "
        "insert into y select q.a, 'large', date'2026-11-08' where r >= 0.5"
    )
    both = "select a from x where b is null union all select a from y where k = 'large'"
    assert asked(f"select count(*), count(distinct a) from ({both})") == [(2000, 2000)]
    before = asked("select count(*) from x") + asked("select count(*) from y")
    for text, error, said in (
        ("from s insert into x select a, 'lost' insert into y select c", NotConforming, "the query has 1 columns"),
        (
            "from s insert into x select a, 'lost' insert into y select cast(raise_error('broken') as int), 'b', null",
            Exception,
            "broken",
        ),
        ("from s insert into x select a, 'lost' insert into d.x select c, 'lost'", Exception, "named twice"),
        ("from s insert into x select a, 'lost' insert overwrite y select 1, 'b', null", NotSupported, "of its own"),
    ):
        with pytest.raises(error, match=said):
            asked(text)
    assert asked("select count(*) from x") + asked("select count(*) from y") == before
