"""CREATE, DROP, ALTER and TRUNCATE: what is in the catalog and on disk then, under which locks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from compactor.base.errors import (
    BadStatement,
    CompactorError,
    DatabaseUnavailable,
    NotConforming,
    NotFound,
    NotSupported,
    Refused,
)
from compactor.base.steps import TransactionStep, WriteStep
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog import embedded
from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from tests.support.interleaving import interleaving
from tests.support.sizes import sized
from tests.support.tables import with_settings

Sql = Callable[[str], list[Mapping[str, object]]]


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))
    return with_settings(deployment, compactor_lock_wait="1ms")


@pytest.fixture
def sql(site: Site) -> Sql:
    """Runs a text, and returns the rows of its last statement."""
    return lambda text: [list(answer.rows) for answer in run(site, check_text(text))][-1]


def test_databases_come_and_go(sql: Sql, warehouse: Path, site: Site) -> None:
    assert sql("create database sales")[0]["created"] is True
    assert site.metastore.catalog.database_location("sales") == f"{warehouse}/sales.db"
    assert sql("create database if not exists sales")[0]["created"] is False
    sql("create table sales.t (a int)")
    with pytest.raises(Refused, match="has tables, such as t"):
        sql("drop database sales")
    sql("drop table sales.t purge; drop database sales")
    assert sql("drop schema if exists sales")[0]["dropped"] is False
    with pytest.raises(NotFound, match="sales"):
        sql("drop database sales")


def test_a_table_is_created_as_it_is_shown(sql: Sql, site: Site, warehouse: Path) -> None:
    """SHOW CREATE TABLE gives a statement that makes the same table again."""
    sql(
        "create table t (Id bigint, `a b` decimal(10, 2), s struct<x:int,y:array<string>>) partitioned by (day date) "
        "clustered by (id) into 4 buckets stored as orc tblproperties ('orc.compress'='ZSTD', 'it''s'='a\\nb')"
    )
    made = site.metastore.catalog.table("default", "t")
    (shown,) = sql("show create table t")
    sql("drop table t purge")
    sql(str(shown["createtab_stmt"]))
    again = site.metastore.catalog.table("default", "t")
    assert (again.columns, again.partition_keys, again.buckets) == (made.columns, made.partition_keys, 4)
    assert (again.bucket_columns, again.parameters, again.location) == (("id",), made.parameters, f"{warehouse}/t")
    sql("create table u like t")
    like = site.metastore.catalog.table("default", "u")
    assert (like.columns, like.partition_keys, like.bucket_columns) == (made.columns, made.partition_keys, ("id",))
    assert like.parameters == {key: value for key, value in made.parameters.items() if key != "it's"}


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("create table t (a int)", Refused, "exists already"),
        ("create table u (a int, A int)", NotConforming, "'a' is defined twice"),
        ("create table u (a int) partitioned by (a int)", NotConforming, "'a' is defined twice"),
        ("create table u (a integer8)", NotConforming, "not a Hive type"),
        ("create table u (a int comment 'x')", NotSupported, "comments and constraints of columns are not stored"),
        ("create table u (a int) stored as parquet", NotSupported, "ORC is expected before 'parquet'"),
        ("create table u (a int) tblproperties ('transactional'='false')", NotSupported, "only full ACID tables"),
        ("create table nowhere.u (a int)", NotFound, "nowhere"),
        ("create table u like nowhere", NotFound, "nowhere"),
        ("drop table u", NotFound, "u"),
        ("alter table t set tblproperties ('transactional'='false')", NotSupported, "another kind of table"),
        ("alter table t unset tblproperties ('Transactional_Properties')", NotSupported, "another kind of table"),
        ("alter table t add columns (A int)", Refused, "has a column a already"),
        ("alter table t add columns (b int, B int)", NotConforming, "is defined twice"),
        ("alter table t rename to nowhere.u", NotFound, "nowhere"),
        ("alter table t add partition (p=1)", Refused, "not partitioned"),
        ("alter table t drop partition (p=1)", Refused, "not partitioned"),
        ("create table u (a int) clustered by (a) into 4097 buckets", Refused, "1 to 4096 buckets"),
        ("create table u (a decimal(5,6))", NotConforming, r"decimal\(5,6\); expected a scale of at most 5"),
        ("create table u (a array<char(256)>)", NotConforming, r"char\(256\); expected 255 at most"),
        ("alter table t add columns (b varchar(65536))", NotConforming, r"varchar\(65536\); expected 65535 at most"),
        ("truncate table t partition (p=1)", Refused, "not partitioned"),
        ("show partitions t", Refused, "not partitioned$"),
        ("truncate table nowhere", NotFound, "nowhere"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(sql: Sql, text: str, error: type[CompactorError], said: str) -> None:
    sql("create table t (a int); insert into t values (1)")
    before = sql("describe formatted t")
    with pytest.raises(error, match=said):
        sql(text)
    assert sql("describe formatted t") == before
    assert sql("show tables") == [{"tab_name": "t"}]
    assert sql("select * from t") == [{"a": 1}]


def test_partitions_are_added_and_dropped(sql: Sql, warehouse: Path) -> None:
    sql("create table t (a int) partitioned by (p string, n int)")
    added = sql("alter table t add partition (p='x y', n=1) partition (p='z', n='02')")
    assert added[0]["partitions"] == ["p=x y/n=1", "p=z/n=2"]
    assert (warehouse / "t/p=x y/n=1").is_dir()
    with pytest.raises(Refused, match="exists already"):
        sql("alter table t add partition (p='new', n=1) partition (p='z', n=2)")
    assert sql("alter table t add if not exists partition (p='z', n=2)")[0]["partitions"] == []
    sql("insert into t partition (p='z', n=2) values (1)")
    assert sql("show partitions t partition (n=2)") == [{"partition": "p=z/n=2"}]
    with pytest.raises(NotFound, match="no partition with p=nothing"):
        sql("alter table t drop partition (p='z'), partition (p='nothing')")
    assert sql("alter table t drop if exists partition (p='z') , partition (p='nothing') purge")[0]["partitions"] == [
        "p=z/n=2"
    ]
    assert not (warehouse / "t/p=z/n=2").exists()
    assert sql("show partitions t") == [{"partition": "p=x y/n=1"}]


def test_no_partition_is_added_where_something_is(sql: Sql, warehouse: Path) -> None:
    """PROTOCOL 14.10; what was added before it is taken back."""
    sql("create table t (a int) partitioned by (p int)")
    (warehouse / "full").mkdir()
    (warehouse / "full/file").touch()
    for location, said in (
        (f"{warehouse}/full", "holds file"),
        (f"{warehouse}/t/p=1/in", "was not added"),
        ("elsewhere", "expected an absolute path"),
    ):
        with pytest.raises(Refused, match=said):
            sql(f"alter table t add partition (p=1) partition (p=2) location '{location}'")
        assert sql("show partitions t") == []


@pytest.mark.parametrize("text", ["truncate table t partition (p='{}')", "alter table t drop partition (p='{}')"])
def test_the_default_partition_is_no_partition_of_that_text(sql: Sql, text: str) -> None:
    sql("create table t (a int) partitioned by (p string); insert into t values (1, 'None'), (2, null), (3, 'x')")
    sql(text.format("__HIVE_DEFAULT_PARTITION__"))
    assert sql("select * from t") == [{"a": 1, "p": "None"}, {"a": 3, "p": "x"}]
    sql(text.format("None"))
    assert sql("select * from t") == [{"a": 3, "p": "x"}]


def test_values_of_partitions_are_cut_and_filled_as_those_of_rows_are(sql: Sql) -> None:
    sql("create table t (a int) partitioned by (c char(3), v varchar(2))")
    sql("insert into t partition (c='q', v='abc') values (1); insert into t values (2, 'wxyz', 'ab'), (3, '', 'x')")
    assert [row["partition"] for row in sql("show partitions t")] == ["c=   /v=x", "c=q  /v=ab", "c=wxy/v=ab"]
    assert sql("show partitions t partition (c='q')") == [{"partition": "c=q  /v=ab"}]
    sql("truncate table t partition (c='q ', v='abd'); alter table t drop partition (c='wxya')")
    assert sql("select * from t") == [{"a": 3, "c": "   ", "v": "x"}]


def test_several_partitions_and_properties_change_together_or_not_at_all(
    sql: Sql, deployment: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("create table t (a int) partitioned by (p string); alter table t add partition (p='a') partition (p='b')")
    done = 0

    def fails_at_the_second(*arguments: object, of: Callable[..., object]) -> object:
        nonlocal done
        done += 1
        if done % 2 == 0:
            raise DatabaseUnavailable("the database is gone")
        return of(*arguments)

    for name in ("_delete_storage", "_set_parameter"):
        before = getattr(embedded, name)
        monkeypatch.setattr(embedded, name, partial(fails_at_the_second, of=before))
    for text in ("drop partition (p='a'), partition (p='b')", "set tblproperties ('k'='1', 'l'='2')"):
        with pytest.raises(DatabaseUnavailable):
            sql(f"alter table t {text}")
    assert sql("show partitions t") == [{"partition": "p=a"}, {"partition": "p=b"}]
    assert not {"k", "l"}.intersection(deployment.metastore.catalog.table("default", "t").parameters)


def test_a_partition_has_a_name_that_the_metastore_and_the_file_system_take(sql: Sql, warehouse: Path) -> None:
    sql("create table t (a int) partitioned by (p string)")
    for value, said in (("x" * 257, "its longest value 257"), ("ä" * 127, "a name of 256 bytes")):
        with pytest.raises(Refused, match=said):
            sql(f"alter table t add partition (p='fits') partition (p='{value}')")
        assert sql("show partitions t") == []
    sql(f"alter table t add partition (p='{'ä' * 127}') location '{warehouse}/elsewhere'")
    assert (warehouse / "elsewhere").is_dir()


def test_columns_are_added_behind_the_others(sql: Sql) -> None:
    sql("create table t (a int) partitioned by (p int); insert into t values (1, 1)")
    sql("alter table t add columns (b string, c decimal(5,2)); insert into t values (2, 'x', 1.5, 1)")
    assert sql("select * from t") == [{"a": 1, "b": None, "c": None, "p": 1}, {"a": 2, "b": "x", "c": "1.50", "p": 1}]
    assert [row["col_name"] for row in sql("describe t")] == ["a", "b", "c", "p"]


def test_a_table_is_renamed_and_its_rows_stay(sql: Sql) -> None:
    sql("create database s; create table t (a int); insert into t values (1); alter table t rename to s.u")
    assert sql("select * from s.u; update s.u set a = 2; select * from s.u") == [{"a": 2}]
    assert sql("show tables") == []


def test_properties_are_set_and_removed(sql: Sql, site: Site) -> None:
    sql("create table t (a int); alter table t set tblproperties ('a'='b', 'compactor.x'='1')")
    sql("alter table t unset tblproperties ('a', 'nothing')")
    parameters = site.metastore.catalog.table("default", "t").parameters
    assert (parameters.get("a"), parameters["compactor.x"]) == (None, "1")


def test_a_table_is_truncated_as_a_whole_or_by_partition(sql: Sql) -> None:
    sql("create table t (a int); insert into t values (1); truncate table t")
    assert sql("select count(*) from t") == [{"count(*)": 0}]
    sql(
        "create table p (a int) partitioned by (d date, n int); insert into p values (1, '2026-11-01', 1), (2, null, 2)"
    )
    sql("insert into p values (3, '2026-11-01', 2)")
    assert sql("truncate table p partition (d='2026-11-01', n=1)")[0]["partitions"] == ["d=2026-11-01/n=1"]
    assert [row["a"] for row in sql("select a from p")] == [3, 2]
    for text in ("truncate table p partition (n>1)", "truncate table p partition (n)"):
        with pytest.raises(BadStatement):
            sql(text)
    with pytest.raises(NotFound, match="no such partition"):
        sql("truncate table p partition (n=9)")
    sql("truncate table p partition (d='2026-11-01')")
    assert [row["a"] for row in sql("select a from p")] == [2]
    sql("truncate p")
    assert sql("select count(*) from p") == [{"count(*)": 0}]


@pytest.mark.parametrize(
    "text",
    [
        "drop table t",
        "truncate table t",
        "alter table t drop partition (p=1)",
        "alter table t add columns (b int)",
        "alter table t rename to u",
    ],
)
def test_a_definition_waits_for_whoever_writes_there(sql: Sql, site: Site, text: str) -> None:
    """TABLES 15: the locks of the statement are those that EXPLAIN LOCKS lists."""
    sql("create table t (a int) partitioned by (p int); insert into t values (1, 1)")
    (txn,) = site.metastore.transactions.open("ada", "h")
    held = LockRequest(database="default", table="t", partition="p=1", type=LockType.SHARED_WRITE)
    site.metastore.locks.acquire(txn, [held], "ada", "h")
    with pytest.raises(CompactorError, match="ada"):
        sql(text)
    assert sql("select a from t") == [{"a": 1}]


def test_an_observer_changes_nothing(deployment: Site, warehouse: Path) -> None:
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))
    observer = with_settings(deployment, compactor_mode="observe")
    for text in ("create database x", "create table t (a int)", "drop database default"):
        with pytest.raises(Refused, match="observe"):
            list(run(observer, check_text(text)))


BEHIND = (
    "drop table {t} purge",
    "alter table {t} rename to {t}_again",
    "alter table {t} add columns (b int)",
    "alter table {t} set tblproperties ('k'='v')",
    "alter table {t} add partition (d='2')",
    "alter table {t} drop partition (d='1') purge",
    "truncate table {t}",
    "delete from {t}",
)


def test_what_waited_behind_a_rename_does_nothing_to_the_renamed_table(site: Site) -> None:
    """PROTOCOL 14.25: by the table's id each of these would change the renamed one, and lose its write IDs or its rows."""
    site = with_settings(site, compactor_lock_wait="1s")

    def sql(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(site, check_text(text))][-1]

    for number, text in enumerate(sized(short=BEHIND[:3], whole=BEHIND)):
        name = f"t{number}"
        sql(f"create table {name} (a int) partitioned by (d string); insert into {name} values (1, '1')")
        with interleaving() as stage:
            renaming = stage.begin(partial(sql, f"alter table {name} rename to {name}_new"))
            renaming.run_to(TransactionStep.LOCKED)
            other = stage.begin(partial(sql, text.format(t=name)))
            other.run_to(TransactionStep.LOCK_AWAITED)
            renaming.end()
            with pytest.raises(NotFound, match=rf"default\.{name}\b"):
                other.end()
        sql(f"insert into {name}_new values (2, '1')")
        assert sql(f"select a, d from {name}_new") == [{"a": 1, "d": "1"}, {"a": 2, "d": "1"}]
        assert sql(f"show partitions {name}_new") == [{"partition": "d=1"}]
        assert "k" not in site.metastore.catalog.table("default", f"{name}_new").parameters
    assert sql("show tables '*again'") == []


def test_a_truncation_has_the_partitions_that_were_added_while_it_waited(site: Site) -> None:
    """PROTOCOL 14.30: it removed the rows of an INSERT from an old partition, and left those in a new one."""
    site = with_settings(site, compactor_lock_wait="1s")

    def sql(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(site, check_text(text))][-1]

    sql("create table t (a int) partitioned by (d string, e string); insert into t values (1, '1', 'x'), (2, '2', 'x')")
    for spec, rows in (("partition (d='1')", [{"a": 2, "d": "2", "e": "x"}]), ("", [])):
        with interleaving() as stage:
            inserting = stage.begin(partial(sql, f"insert into t values (5, '1', 'x'), (6, '1', 'new {spec[:1]}')"))
            inserting.run_to(WriteStep.WRITE_STAGED)
            truncating = stage.begin(partial(sql, f"truncate table t {spec}"))
            truncating.run_to(TransactionStep.LOCK_AWAITED)
            inserting.end()
            truncating.end()
        assert sql("select * from t") == rows


def test_a_truncation_does_not_wait_for_who_waits_for_it(site: Site) -> None:
    """PROTOCOL 14.30: for the lock on each partition it queued behind an INSERT that waited for its lock on the table."""
    site = with_settings(site, compactor_lock_wait="1s")

    def sql(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(site, check_text(text))][-1]

    sql("create table t (a int) partitioned by (d string); insert into t values (1, '1'), (2, '2')")
    with interleaving() as stage:
        truncating = stage.begin(partial(sql, "truncate table t"))
        truncating.run_to(TransactionStep.LOCKED)
        inserting = stage.begin(partial(sql, "insert into t values (3, '1')"))
        inserting.run_to(TransactionStep.LOCK_AWAITED)
        truncating.end()
        inserting.end()
    assert sql("select * from t") == [{"a": 3, "d": "1"}]


@pytest.mark.parametrize("spec", ["", "partition (d='1')"])
def test_a_truncation_does_not_bring_back_a_partition(site: Site, spec: str) -> None:
    """PROTOCOL 14.30: one that was dropped while the truncation waited was there again, empty."""
    site = with_settings(site, compactor_lock_wait="1s")

    def sql(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(site, check_text(text))][-1]

    sql("create table t (a int) partitioned by (d string); insert into t values (1, '1')")
    with interleaving() as stage:
        dropping = stage.begin(partial(sql, "alter table t drop partition (d='1')"))
        dropping.run_to(TransactionStep.LOCKED)
        truncating = stage.begin(partial(sql, f"truncate table t {spec}"))
        truncating.run_to(TransactionStep.LOCK_AWAITED)
        dropping.end()
        with pytest.raises(NotFound, match="has no such partition") if spec else nullcontext():
            truncating.end()
    assert sql("show partitions t") == []


def test_a_drop_that_waited_behind_another_says_that_the_table_is_gone(site: Site) -> None:
    site = with_settings(site, compactor_lock_wait="1s")

    def sql(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(site, check_text(text))][-1]

    sql("create table t (a int)")
    with interleaving() as stage:
        first = stage.begin(partial(sql, "drop table t"))
        first.run_to(TransactionStep.LOCKED)
        second = stage.begin(partial(sql, "drop table if exists t"))
        second.run_to(TransactionStep.LOCK_AWAITED)
        first.end()
        assert second.end()[0]["dropped"] is False


def test_a_drop_of_partitions_waits_for_who_writes_into_one_that_was_added_meanwhile(site: Site) -> None:
    """PROTOCOL 14.26: the partition was dropped under its writer, whose rows were lost."""
    site = with_settings(site, compactor_lock_wait="1s")

    def sql(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(site, check_text(text))][-1]

    sql("create table t (a int) partitioned by (d string, e string); insert into t values (1, '1', 'x')")
    with interleaving() as stage:
        inserting = stage.begin(partial(sql, "insert into t partition (d='1', e='x') values (2)"))
        inserting.run_to(WriteStep.WRITE_STAGED)
        dropping = stage.begin(partial(sql, "alter table t drop partition (d='1') purge"))
        dropping.run_to(TransactionStep.LOCK_AWAITED)
        sql("insert into t partition (d='1', e='y') values (3)")
        writing = stage.begin(partial(sql, "insert into t partition (d='1', e='y') values (4)"))
        writing.run_to(WriteStep.WRITE_STAGED)
        inserting.end()
        dropping.run_to(TransactionStep.LOCK_AWAITED)
        writing.end()
        assert dropping.end()[0]["partitions"] == ["d=1/e=x", "d=1/e=y"]
    assert sql("select * from t") == []


@pytest.mark.parametrize("text", ["alter table t rename to u", "drop table t", "alter table t add columns (b int)"])
def test_what_waited_asks_the_table_that_it_finds_for_its_mode(site: Site, text: str) -> None:
    """PROTOCOL 14.26: the mode was that of the table which had the name before."""
    site = with_settings(site, compactor_lock_wait="1s")

    def sql(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(site, check_text(text))][-1]

    sql("create table t (a int)")
    with interleaving() as stage:
        altering = stage.begin(partial(sql, "alter table t set tblproperties ('compactor.mode'='observe')"))
        altering.run_to(TransactionStep.LOCKED)
        waiting = stage.begin(partial(sql, text))
        waiting.run_to(TransactionStep.LOCK_AWAITED)
        altering.end()
        with pytest.raises(Refused, match="mode is observe"):
            waiting.end()
    assert len(sql("describe t")) == 1
