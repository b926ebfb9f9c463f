"""Parsing statements into accesses; ``test_statement_locks`` has the locks that follow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadStatement, Refused
from compactor.locking.statement_rules import DROP_DATABASE, Access, AccessKind, Name
from compactor.statements import parsed_actions, statement_list
from compactor.statements.parsed_actions import NeedsSpark
from compactor.statements.parser import only_reads, parse, parse_all, parse_script
from compactor.statements.spark_text import SparkText
from tests.support.sizes import sized

FORMS = [
    ("select a from t", "SELECT", [(AccessKind.READ, "t")]),
    ("with x as (select * from s) select * from x", "SELECT", [(AccessKind.READ, "s")]),
    ("insert into t select * from s", "INSERT INTO … SELECT", [(AccessKind.INSERT, "t"), (AccessKind.READ, "s")]),
    ("insert overwrite table t values (1)", "INSERT OVERWRITE … VALUES", [(AccessKind.INSERT_OVERWRITE, "t")]),
    (
        "from s insert into t select a insert into u select b",
        "MULTI INSERT",
        [*[(AccessKind.INSERT, n) for n in "tu"], None],
    ),
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
    ("load data inpath '/x' overwrite into table t", "LOAD DATA", [(AccessKind.INSERT_OVERWRITE, "t")]),
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
    ("explain locks delete from t", "EXPLAIN LOCKS", []),
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
        ("merge into t", "USING is expected at the end"),
        ("merge into t using s on a = b", "WHEN … THEN"),
        ("load data inpath '/x'", "INTO TABLE is expected"),
        ("insert overwrite directory '/x' select 1", "writes no table"),
        ("alter table t fly away now", "before 'fly away now'"),
        ("alter materialized view v rebuild", "explain that"),
    ],
)
def test_an_unknown_statement_is_refused_by_its_words(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        parse(text)


def test_a_deletion_that_names_a_second_table_is_no_statement() -> None:
    """TABLES 15: no table is left without its lock."""
    for text in ("delete from t using s where t.a = s.a", "delete from t, s where a = 1", "update t set a = 1 from s"):
        with pytest.raises(BadStatement, match="line 1"):
            parse(text)


def test_the_place_is_that_in_the_whole_text() -> None:
    first, second = parse_all("select a from t;\n  delete from t where a = 1;")
    assert (first.place, second.place) == ("line 1, character 1", "line 2, character 3")
    assert (first.text, second.text) == ("select a from t", "delete from t where a = 1")


#: Words of the list, and what may follow them.
_WORDS = sorted({word for form in statement_list.FORMS for word in re.findall(r"[A-Z]+", form.syntax)})
_OTHERS = (
    "a",
    "b",
    "d.t",
    "`x`",
    "'text'",
    "1",
    "2.5",
    "-",
    "(",
    ")",
    ",",
    "=",
    "<",
    ".",
    ";",
    "*",
    "and",
    "or",
    "not",
)
_PIECES = (*_WORDS, *_OTHERS, "in", "like", "between", "is", "null", "when", "then")


@given(
    st.one_of(
        st.text(max_size=60), st.lists(st.sampled_from(_PIECES), max_size=sized(short=14, whole=40)).map(" ".join)
    )
)
def test_any_text_is_a_statement_or_is_refused_by_name(text: str) -> None:
    """Nothing but our own error comes out, and what comes out is one that is told apart from what fails later."""
    try:
        found = parse_all(text)
    except BadStatement:
        return
    assert all(one.name and one.place for one in found)


def test_words_of_two_pieces_of_a_query_stay_apart() -> None:
    text = "from s join d.r on s.a = r.a insert into t select s.a"
    action = parse(text).action
    assert isinstance(action, NeedsSpark)
    written = SparkText(text).query(action.query, lambda place: f"[{place.table}]")
    assert written == "from [s] AS `s` join [d.r] AS `r` on s.a = r.a select s.a"


def test_a_text_may_have_several_transactions() -> None:
    found = parse_script("start transaction; commit; select a from t; start transaction; rollback;")
    assert [type(one.action) for one in found] == [
        parsed_actions.StartTransaction,
        parsed_actions.Commit,
        parsed_actions.Select,
        parsed_actions.StartTransaction,
        parsed_actions.Rollback,
    ]


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("show tables; describe t; show locks; explain locks drop table t; use d", True),
        ("show tables; select a from t", False),  # a scan is a transaction
        ("abort compactions 1", False),
    ],
)
def test_what_only_reads(text: str, reads: bool) -> None:
    assert only_reads(parse_script(text)) is reads


@pytest.mark.parametrize("text", ["", " ;; ", "-- nothing"])
def test_an_empty_text_is_refused(text: str) -> None:
    with pytest.raises(BadStatement, match="it is empty"):
        parse_script(text)
