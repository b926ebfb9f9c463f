"""Statements that may run concurrently, by the locks of whole statements (the behaviours of Hive 4's lock tests)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compactor.metastore.metastore import Metastore
from tests.support.sessions import Session

Begin = Callable[..., Session]
STRICT = {"hive__txn__xlock__write": "true"}
LOCKLESS = {"hive__acid__lockless__reads__enabled": "true"}


@pytest.fixture
def begin(metastore: Metastore) -> Begin:
    """A session, with these settings."""
    return lambda **settings: Session(metastore, **settings)


@pytest.mark.parametrize(
    ("first", "second", "beside"),
    [
        ("select * from t", "insert into t values (1)", True),
        ("select * from t", "update t set a = 1", True),
        ("select * from t", "insert overwrite table t select 1", False),
        ("select * from t", "truncate table t", True),
        ("select * from t", "alter table t add columns (b int)", False),
        ("select * from t", "alter table t rename to t2", False),
        ("select * from part where p = 1", "alter table part drop partition (p = 1)", False),
        ("select * from part where p = 2", "alter table part drop partition (p = 1)", True),
        ("select * from part where p = 1", "alter table part add partition (p = 3)", True),
        ("insert into t values (1)", "insert into t values (2)", True),
        ("insert into t values (1)", "update t set a = 1", True),
        ("insert into t values (1)", "insert overwrite table t select 1", False),
        ("insert into plain values (1)", "insert into plain values (2)", False),
        ("insert into plain values (1)", "select * from plain", False),
        ("update t set a = 1", "update t set a = 2", False),
        ("update t set a = 1", "delete from t", False),
        ("update t set a = 1 where b in (select b from u)", "update u set a = 1", True),
        ("update part set a = 1 where p = 1", "delete from part where p = 2", False),
        ("delete from part where p = 1", "delete from part where p = 2", True),
        ("merge into t using u on t.a = u.a when matched then delete", "update t set a = 1", False),
        ("merge into t using u on t.a = u.a when not matched then insert values (1)", "insert into t values (1)", True),
        ("load data inpath '/x' into table t", "select * from t", True),
        ("load data inpath '/x' overwrite into table t", "select * from t", False),
        ("analyze table t compute statistics", "insert into t values (1)", True),
        ("create table n as select * from t", "drop table t", False),
        ("create table n stored as orc tblproperties ('transactional'='true') as select 1", "drop database default",
         False),
        ("insert overwrite table part partition (p=1) select 1", "insert overwrite table part partition (p=2) select 1",
         True),
        ("insert overwrite table part partition (p=1) select 1", "insert overwrite table part partition (p=1) select 1",
         False),
        ("insert overwrite table part partition (p) select 1, 1", "insert into part partition (p=1) select 1", False),
        ("alter table t set tblproperties ('a'='b')", "insert into t values (1)", True),
        ("alter table plain set tblproperties ('transactional'='true')", "insert into plain values (1)", False),
        ("explain update t set a = 1", "drop table t", True),
    ],
)  # fmt: skip
def test_beside_each_other_or_one_after_the_other(first: str, second: str, beside: bool, begin: Begin) -> None:
    """With exclusive writers (hive.txn.xlock.write=true): what stands beside what, by the statements' own locks."""
    one, two = begin(**STRICT), begin(**STRICT)
    assert one.run(first)
    assert two.run(second) is beside
    one.commit()
    assert beside or two.granted()


@pytest.mark.parametrize(
    ("first", "second", "beside"),
    [
        ("update t set a = 1", "update t set a = 2", True),
        ("update t set a = 1", "insert into t values (1)", True),
        ("update t set a = 1", "insert overwrite table t select 1", False),
        ("insert overwrite table t select 1", "select * from t", True),
        ("insert overwrite table t select 1", "insert into t values (1)", False),
        ("merge into t using u on t.a = u.a when matched then delete", "update t set a = 1", True),
    ],
)
def test_shared_writers_stand_beside_each_other(first: str, second: str, beside: bool, begin: Begin) -> None:
    """hive.txn.xlock.write=false, Hive's default."""
    one, two = begin(), begin()
    assert one.run(first)
    assert two.run(second) is beside


@pytest.mark.parametrize(
    ("statement", "settings"),
    [
        ("alter table part drop partition (p = 1)", {"hive__acid__droppartition__usebase": "true"}),
        (
            "alter table part partition (p=1) rename to partition (p=9)",
            {"hive__acid__renamepartition__makecopy": "true"},
        ),
        ("alter table part drop partition (p = 1)", LOCKLESS),
        ("drop table part", LOCKLESS),
        ("drop materialized view part", LOCKLESS),
        ("alter table part rename to other", LOCKLESS),
        ("alter table part add columns (b int)", LOCKLESS),
        ("alter table part replace columns (b int)", LOCKLESS),
        ("alter table part change a c int", LOCKLESS),
        ("alter table part set serde 'x'", LOCKLESS),
        ("alter table part set fileformat orc", LOCKLESS),
        ("alter table part clustered by (a) into 2 buckets", LOCKLESS),
        ("alter table part add constraint c primary key (a)", LOCKLESS),
        ("alter table part drop constraint c", LOCKLESS),
        ("alter table part add if not exists partition (p = 3)", LOCKLESS),
        ("alter table part unset tblproperties ('a')", LOCKLESS),
        ("alter materialized view part disable rewrite", LOCKLESS),
        ("msck repair table part", LOCKLESS),
    ],
)
def test_changes_that_do_not_wait_for_readers(statement: str, settings: dict[str, str], begin: Begin) -> None:
    """Leaving old files to the cleaner takes an EXCL_WRITE; without those settings it waits (or needs no lock)."""
    reader, change = begin(), begin(**settings)
    assert reader.run("select * from part")
    assert change.run(statement)
    writer = begin()
    assert not writer.run("update part set a = 1")
