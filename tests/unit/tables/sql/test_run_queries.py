"""SELECT without an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import select

from compactor.base.errors import (
    BadExpression,
    BadStatement,
    CompactorError,
    LockNotGranted,
    NotConforming,
    NotFound,
    NotSupported,
    Refused,
)
from compactor.metastore.schema.tables import COMPLETED_TXN_COMPONENTS, TXN_COMPONENTS
from compactor.site.site import Site
from compactor.tables.sql import run_queries
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.sql.sql_session import Answer
from compactor.tables.store import Store
from tests.support.passes import compact
from tests.support.tables import with_settings

Ask = Callable[[str], Answer]
Sql = Callable[[str], list[Mapping[str, object]]]


@pytest.fixture
def ask(deployment: Site, warehouse: Path) -> Ask:
    """Returns the answer of one statement; ``t`` has the rows 1 to 5."""
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))

    def go(text: str) -> Answer:
        answers = run(deployment, check_text(text))
        answer = next(answers)
        return Answer(
            statement=answer.statement, rows=list(answer.rows), columns=answer.columns, message=answer.message
        )

    go("create table t (a int, b array<string>, c struct<x:double>)")
    go("insert into t (a) values (1), (2), (3), (4), (5)")
    return go


def test_columns_come_in_the_order_of_the_list(ask: Ask) -> None:
    answer = ask("select c, t.a from t where a < 3")
    assert answer.columns == ("c", "a")
    assert [list(row) for row in answer.rows] == [["c", "a"]] * 2
    assert [row["a"] for row in answer.rows] == [1, 2]


def test_a_limit_ends_the_scan(ask: Ask, deployment: Site) -> None:
    assert [row["a"] for row in ask("select a from t limit 2").rows] == [1, 2]
    assert list(ask("select a from t limit 0").rows) == []
    assert len(list(ask("select a from t limit 99").rows)) == 5
    assert deployment.metastore.transactions.open_transactions() == []
    assert deployment.metastore.transactions.unfinished() == []  # none is left aborted


def test_rows_have_their_ids(ask: Ask) -> None:
    (row,) = ask("select a, row__id from t where a = 2").rows
    assert row == {"a": 2, "row__id": {"writeid": 1, "bucketid": 536870912, "rowid": 1}}


def test_rows_are_counted(ask: Ask) -> None:
    answer = ask("select count(*) from t x where x.a between 2 and 4")
    assert (answer.columns, list(answer.rows)) == (("count(*)",), [{"count(*)": 3}])


def test_a_column_may_be_called_count(ask: Ask) -> None:
    ask("create table n (count int, `*` int)")
    ask("insert into n values (7, 8)")
    assert list(ask("select count from n").rows) == [{"count": 7}]
    assert list(ask("select `*` from n").rows) == [{"*": 8}]
    assert list(ask("select count(*) from n").rows) == [{"count(*)": 1}]


def test_a_limit_is_that_of_a_count_too(ask: Ask) -> None:
    answer = ask("select count(*) from t limit 0")
    assert (answer.columns, list(answer.rows), answer.message) == (("count(*)",), [], "there are no such rows")
    assert list(ask("select count(*) from t limit 1").rows) == [{"count(*)": 5}]
    with pytest.raises(BadExpression, match="character"):
        ask("select count(*) from t where a = 'x' limit 0")


def test_what_is_not_there_is_named(ask: Ask) -> None:
    with pytest.raises(NotFound, match="no column 'z'"):
        ask("select z from t")
    with pytest.raises(NotFound, match="nowhere"):
        ask("select * from nowhere")
    with pytest.raises(BadExpression, match="character"):
        ask("select * from t where a = 'x'")


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))
    return with_settings(deployment, compactor_lock_wait="1ms")


@pytest.fixture
def sql(site: Site) -> Sql:
    """Runs a text, and returns the rows of its last statement; ``s(a, v) partitioned by (k)`` has three rows."""

    def of(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(site, check_text(text))][-1]

    of("create table s (a int, v varchar(3)) partitioned by (k string)")
    of("insert into s values (1, 'abc', 'x'), (2, null, 'y'), (3, 'd', 'x')")
    return of


def test_a_table_has_the_columns_and_rows_of_the_query(sql: Sql, site: Site) -> None:
    made = sql("create table t tblproperties ('orc.compress'='ZSTD') as select v, a from s where a > 1")
    assert [(row["table"], row["created"], row["rows"]) for row in made] == [("default.t", True, 2)]
    table = site.metastore.catalog.table("default", "t")
    assert [(one.name, one.type) for one in table.columns] == [("v", "varchar(3)"), ("a", "int")]
    assert table.parameters["orc.compress"] == "ZSTD"
    assert table.is_full_acid
    assert {(row["a"], row["v"]) for row in sql("select a, v from t")} == {(2, None), (3, "d")}
    sql("update t set v = 'new' where a = 2; delete from t where a = 3")
    compact(site, table="default.t")
    assert sql("select * from t") == [{"v": "new", "a": 2}]


def test_rows_lie_in_the_partitions_and_buckets_that_the_statement_names(sql: Sql, site: Site) -> None:
    sql("create table t partitioned by (k) clustered by (a) into 2 buckets stored as orc as select * from s")
    assert sql("show partitions t") == [{"partition": "k=x"}, {"partition": "k=y"}]
    assert sorted(str(row) for row in sql("select * from t")) == sorted(str(row) for row in sql("select * from s"))
    assert site.metastore.catalog.table("default", "t").buckets == 2


@pytest.mark.parametrize("query", ["select * from s where a > 9", "select * from s limit 0"])
def test_a_query_without_rows_makes_an_empty_table(sql: Sql, query: str) -> None:
    for kind in ("", "partitioned by (k) "):
        sql(f"create table t {kind}as {query}")
        assert sql("select count(*) from t") == [{"count(*)": 0}]
        assert [row["a"] for row in sql("insert into t values (7, 'x', 'y'); select a from t")] == [7]
        sql("drop table t purge")


def test_a_table_that_is_there_stays(sql: Sql) -> None:
    sql("create table t as select a from s where a = 1")
    assert sql("create table if not exists t as select * from s")[0]["created"] is False
    with pytest.raises(Refused, match="exists already"):
        sql("create table t as select * from s")
    assert sql("select * from t") == [{"a": 1}]


def test_the_transaction_has_one_row_for_the_new_table(sql: Sql, site: Site) -> None:
    """As Hive's has: an insert, with the first write ID; what is read has no row."""
    sql("create table t as select a from s; create table p partitioned by (k) as select * from s")
    rows = COMPLETED_TXN_COMPONENTS.c
    query = select(rows.CTC_TABLE, rows.CTC_PARTITION, rows.CTC_WRITEID, rows.CTC_UPDATE_DELETE)
    with site.metastore.database.read() as conn:
        found = conn.execute(query.where(rows.CTC_TABLE != "s")).all()
        assert conn.execute(select(TXN_COMPONENTS)).all() == []
    assert sorted(map(tuple, found), key=str) == [
        ("p", "k=x", 1, "N"),
        ("p", "k=y", 1, "N"),
        ("t", None, 1, "N"),
    ]


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("create table u as select a, a from s", NotConforming, "column 'a' twice"),
        ("create table u as select nothing from s", NotFound, "no column 'nothing'"),
        ("create table u as select * from nowhere", NotFound, "nowhere"),
        ("create table nowhere.u as select * from s", NotFound, "nowhere"),
        ("create table u partitioned by (b) as select * from s", NotFound, "no column 'b'"),
        ("create table u clustered by (b) into 2 buckets as select * from s", NotFound, "no column 'b'"),
        ("create table u partitioned by (k, K) as select * from s", NotConforming, "'k' is named twice"),
        ("create table u clustered by (a, a) into 2 buckets as select * from s", NotConforming, "'a' is named twice"),
        ("create table u tblproperties ('EXTERNAL'='TRUE') as select * from s", NotSupported, "cannot be ACID tables"),
        ("create table u tblproperties ('Transactional'='false') as select * from s", NotSupported, "only full ACID"),
        ("create table u tblproperties ('transactional'='false') as select * from s", NotSupported, "only full ACID"),
        ("create table u (a int) as select a from s", NotSupported, r"a query gives the columns.* character 16"),
        ("create table u stored as parquet as select a from s", NotSupported, "ORC is expected before 'parquet"),
        ("create external table u as select a from s", NotSupported, "external tables"),
        ("create or replace table u as select a from s", BadStatement, "a table is not replaced"),
        ("create table u as select count(*) from s", NotSupported, r"needs Spark: count\(\*\)"),
        ("create table u as select a + 1 from s", NotSupported, r"needs Spark: '\+' at line 1, character 28"),
        ("create table u as select a from s where a + 1 = 2", BadExpression, "character 1"),
        ("start transaction; create table u as select a from s; commit", BadStatement, "not allowed in a transaction"),
    ],
)
def test_what_is_not_created_leaves_nothing(
    sql: Sql, site: Site, warehouse: Path, text: str, error: type[CompactorError], said: str
) -> None:
    with pytest.raises(error, match=said):
        sql(text)
    assert sql("show tables") == [{"tab_name": "s"}]
    assert not (warehouse / "u").exists()
    assert site.metastore.transactions.open_transactions() == []


def test_a_query_that_fails_leaves_no_table(
    sql: Sql, site: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a table nor a component; and the next statement may have the directory, in which nobody writes any more."""

    def failing(*given: object) -> pa.RecordBatchReader:
        batch = pa.record_batch({"a": pa.array([1], pa.int32()), "v": ["x"], "k": ["p"]})

        def batches() -> object:
            yield batch
            raise Refused("broken")

        return pa.RecordBatchReader.from_batches(batch.schema, batches())

    with monkeypatch.context() as patched:
        patched.setattr(run_queries, "_read_query", failing)
        with pytest.raises(Refused, match="broken"):
            sql("create table t partitioned by (k) as select * from s")
    assert sql("show tables") == [{"tab_name": "s"}]
    assert [path for path in (warehouse / "t").rglob("*") if path.is_file()] == []
    with site.metastore.database.read() as conn:
        assert conn.execute(select(TXN_COMPONENTS)).all() == []
    assert sql("create table t as select * from s")[0]["rows"] == 3


def test_nobody_knows_the_table_before_its_rows(sql: Sql, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    rows_of = run_queries._read_query

    def looking(source: object, asked: object) -> pa.RecordBatchReader:
        seen.append(site.metastore.catalog.is_known("default", "t"))
        with pytest.raises(LockNotGranted, match=r"not granted.*EXCLUSIVE on default\.t"):
            sql("create table t as select a from s")
        return rows_of(source, asked)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(run_queries, "_read_query", looking)
        list(run(site, check_text("create table t as select * from s")))
    assert seen == [False]
    assert Store(site).load_table("default.t").scan().count() == 3


def test_a_version_is_read_as_it_was(ask: Ask) -> None:
    ask("delete from t where a = 2")
    assert [row["a"] for row in ask("select a from t for system_version as of 1 where a < 3").rows] == [1, 2]
    assert ask("select count(*) from t FOR SYSTEM_VERSION AS OF 1 x where x.a > 1").rows == [{"count(*)": 4}]
    ask("create table u as select a from t for system_version as of 1")
    assert ask("select count(*) from u").rows == [{"count(*)": 5}]
    with pytest.raises(Refused, match="version 7 is not available: expected a version from 0 to 2, the current one"):
        ask("select a from t for system_version as of 7")
    with pytest.raises(NotSupported, match="needs Spark"):
        ask("select a from t for system_time as of 7")
