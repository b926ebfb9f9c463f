"""Parsing statements into accesses; ``test_statement_locks`` has the locks that follow."""

from __future__ import annotations

import pytest

from compactor.errors import Refused
from compactor.locking.statement_parser import Access, parse
from compactor.locking.statement_rules import DROP_DATABASE, AccessKind
from compactor.locking.statement_tokens import Name

FORMS = [
    ("select a from t", "SELECT", [(AccessKind.READ, "t")]),
    ("with x as (select * from s) select * from x", "SELECT", [(AccessKind.READ, "s")]),
    ("insert into t select * from s", "INSERT", [(AccessKind.INSERT, "t"), (AccessKind.READ, "s")]),
    ("insert overwrite table t values (1)", "INSERT OVERWRITE", [(AccessKind.INSERT_OVERWRITE, "t")]),
    ("from s insert into t select a insert into u select b", "INSERT", [*[(AccessKind.INSERT, n) for n in "tu"], None]),
    (
        "from s insert into t select a insert overwrite table u select b",
        "MULTI INSERT",
        [(AccessKind.INSERT, "t"), (AccessKind.INSERT_OVERWRITE, "u"), None],
    ),
    ("update t set a = 1", "UPDATE", [(AccessKind.UPDATE, "t")]),
    ("delete from t where a in (select a from s)", "DELETE", [(AccessKind.DELETE, "t"), (AccessKind.READ, "s")]),
    (
        "merge into t using s on t.a = s.a when matched then delete when not matched then insert values (1)",
        "MERGE",
        [(AccessKind.DELETE, "t"), (AccessKind.MERGE_INSERT, "t"), (AccessKind.READ, "s")],
    ),
    ("load data inpath '/x' overwrite into table t", "LOAD DATA OVERWRITE", [(AccessKind.INSERT_OVERWRITE, "t")]),
    ("truncate table t", "TRUNCATE TABLE", [(AccessKind.DDL_EXCLUSIVE, "t")]),
    ("analyze table t compute statistics", "ANALYZE TABLE", [(AccessKind.DDL_SHARED, "t")]),
    ("msck repair table t", "MSCK", [(AccessKind.DDL_EXCLUSIVE, "t")]),
    ("create table t (a int)", "CREATE TABLE", [(AccessKind.DDL_SHARED, "")]),
    ("create view v as select * from s", "CREATE VIEW", [(AccessKind.DDL_SHARED, ""), (AccessKind.READ, "s")]),
    ("drop table if exists t", "DROP TABLE", [(AccessKind.DDL_EXCLUSIVE, "t"), (AccessKind.DDL_SHARED, "")]),
    ("alter table t compact 'major'", "ALTER TABLE COMPACT", [(AccessKind.DDL_NO_LOCK, "t")]),
    (
        "alter table t rename to u",
        "ALTER TABLE RENAME TO",
        [(AccessKind.DDL_EXCLUSIVE, "t"), (AccessKind.DDL_SHARED, "")],
    ),
    ("show tables", "SHOW TABLES", [(AccessKind.READ, "")]),
    ("describe t", "DESCRIBE", []),
    ("explain delete from t", "EXPLAIN", []),
    ("explain locks delete from t", "DELETE", [(AccessKind.DELETE, "t")]),
]


def one(text: str) -> Access:
    return parse(text).accesses[0]


@pytest.mark.parametrize(("text", "name", "accesses"), FORMS, ids=[text for text, _, _ in FORMS])
def test_the_accesses_of_a_statement(text: str, name: str, accesses: list[tuple[AccessKind, str] | None]) -> None:
    found = parse(text)
    wanted = [(AccessKind.READ, "s") if access is None else access for access in accesses]
    assert (found.name, [(a.kind, a.name.table) for a in found.accesses]) == (name, wanted)
    assert parse(text.upper().replace("'MAJOR'", "'major'")).name == name


def test_the_partition_is_kept_with_and_without_values() -> None:
    assert one("insert into t partition (p='a b', q) select 1").partition == (("p", "a b"), ("q", None))
    assert one("insert into t select 1").partition is None


def test_the_column_values_that_a_condition_demands() -> None:
    change = one("delete from d.t where p = '1' and q = 'x'")
    assert change.name == Name(database="d", table="t")
    assert set(change.where) == {("p", "1"), ("q", "x")}


def test_only_an_update_may_move_rows() -> None:
    assert one("update t set a = 1").moves
    assert not one("delete from t").moves


@pytest.mark.parametrize(
    ("text", "transactional"),
    [
        ("create transactional table t as select 1", True),
        ("create table t tblproperties ('transactional'='true') as select 1", True),
        ("create table t as select 1", False),
        ("create external table t as select 1", False),
    ],
)
def test_create_table_as(text: str, transactional: bool) -> None:
    made = one(text)
    assert (made.kind, made.makes) == (AccessKind.CTAS, transactional)


def test_dropping_a_database_with_and_without_its_contents() -> None:
    dropped = one("drop database d cascade")
    assert dropped.is_database
    assert (dropped.command, dropped.name.database, dropped.cascades) == (DROP_DATABASE, "d", True)
    assert not one("drop schema if exists d").cascades


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty"),
        ("grant select on t to me", "GRANT SELECT ON"),
        ("merge into t", "no USING"),
        ("merge into t using s on a = b", "no WHEN"),
        ("load data inpath '/x'", "no INTO TABLE"),
        ("insert overwrite directory '/x' select 1", "writes no table"),
        ("alter table t fly away now", "FLY AWAY NOW"),
        ("alter materialized view v rebuild", "explain that query"),
    ],
)
def test_an_unknown_statement_is_refused_by_its_words(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        parse(text)
