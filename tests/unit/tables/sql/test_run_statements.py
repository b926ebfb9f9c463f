"""Texts run over one embedded metastore: nothing is half done, and what is refused is refused before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compactor.base.errors import BadExpression, BadStatement, CompactorError, NotConforming, NotSupported, Refused
from compactor.site.site import Site
from compactor.statements import parsed_actions
from compactor.tables.sql.run_statements import HANDLERS, check_text, run
from tests.support.sizes import sized

Sql = Callable[[str], list[list[Mapping[str, object]]]]
Rows = Sequence[Mapping[str, object]]


@pytest.fixture
def sql(deployment: Site, warehouse: Path) -> Sql:
    """Runs a text in the database ``d``, and returns the rows of each statement."""
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))
    deployment.metastore.embedded_catalog.create_database("d", str(warehouse / "d.db"))
    return lambda text: [list(answer.rows) for answer in run(deployment, check_text(text), "d")]


@pytest.fixture
def rows(sql: Sql) -> Callable[[str], Rows]:
    """Runs a text, and returns the rows of its last statement."""
    return lambda text: sql(text)[-1]


def test_every_action_is_done_or_refused_before_anything_is() -> None:
    """TABLES 15: a closed list."""
    refused = {
        parsed_actions.NotRun,
        parsed_actions.NeedsSpark,
        parsed_actions.MergeStatement,
        parsed_actions.MultiInsert,
    }
    assert set(HANDLERS) | refused == set(parsed_actions.Action.__args__)  # type: ignore[attr-defined]  # a union of classes


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("insert into t values (1); select a from", BadStatement, "a name is expected at the end, after 'from'"),
        ("insert into t values (1); grant x to y", BadStatement, "at line 1, character 27"),
        (
            "insert into t values (1); create view v as select 1",
            NotSupported,
            "CREATE VIEW at line 1, character 27: views",
        ),
        (
            "insert into t values (1); select a from t join t u",
            NotSupported,
            "needs Spark: 'JOIN' at line 1, character 43",
        ),
        (
            "insert into t values (1);\n delete from t where lower(a) = 1",
            BadExpression,
            "DELETE at line 2, character 2",
        ),
        ("insert into t values (1); update t set a = a + 1", BadExpression, r"UPDATE at .*: a: .*'\+'"),
        ("insert into t values (1); alter table t compact 'all'", Refused, "compaction type 'all'"),
        (
            "insert into t values (1); start transaction; drop table t; commit",
            BadStatement,
            "not allowed in a transaction",
        ),
        ("insert into t values (1); start transaction; delete from t", BadStatement, "ends without its COMMIT"),
        ("insert into t values (1); load data inpath '/x' into table t", NotSupported, "takes files away"),
        (
            "insert into t values (1); from t insert into t select a insert into u select a",
            NotSupported,
            "MULTI INSERT at line 1, character 27 needs Spark",
        ),
        (
            "insert into t values (1); merge into t using s on a = b when matched then delete",
            NotSupported,
            "MERGE at line 1, character 27 needs Spark",
        ),
    ],
)
def test_a_text_with_one_bad_statement_does_nothing(
    sql: Sql, deployment: Site, text: str, error: type[CompactorError], said: str
) -> None:
    sql("create table t (a int)")
    with pytest.raises(error, match=said):
        sql(text)
    assert sql("select count(*) from t") == [[{"count(*)": 0}]]
    assert deployment.metastore.transactions.open_transactions() == []


def test_what_was_done_before_a_failure_stays(sql: Sql) -> None:
    sql("create table t (a int)")
    with pytest.raises(NotConforming, match="column a"):
        sql("insert into t values (1); insert into t values ('x')")
    assert sql("select * from t") == [[{"a": 1}]]


def test_a_transaction_is_there_as_a_whole_or_not_at_all(sql: Sql, deployment: Site) -> None:
    sql("create table t (a int); create table u (a int)")
    sql("start transaction; insert into t values (1), (2); delete from t where a = 1; insert into u values (3); commit")
    assert sql("select * from t; select * from u") == [[{"a": 2}], [{"a": 3}]]
    within = sql(
        "start transaction; insert into t values (9); select count(*) from t; rollback; select count(*) from t"
    )
    assert (within[2], within[4]) == ([{"count(*)": 2}], [{"count(*)": 1}])
    with pytest.raises(NotConforming):
        sql("start transaction; insert into t values (9); insert into u values ('x'); commit")
    assert sql("select count(*) from t") == [[{"count(*)": 1}]]
    assert deployment.metastore.transactions.open_transactions() == []


def test_a_transaction_sees_one_snapshot(sql: Sql, deployment: Site) -> None:
    sql("create table t (a int)")
    statements = check_text(
        "start transaction; select count(*) from t; select count(*) from t; commit; select count(*) from t"
    )
    seen = []
    for answer in run(deployment, statements, "d"):
        seen.append(list(answer.rows))
        if len(seen) == 2:
            sql("insert into t values (1)")
    assert seen[1] == seen[2] == [{"count(*)": 0}]
    assert seen[4] == [{"count(*)": 1}]


def test_the_current_database_is_that_of_the_text(sql: Sql, rows: Callable[[str], Rows]) -> None:
    sql("create table default.t (a int); create table t (a int); insert into t values (1)")
    assert rows("use default; select count(*) from t") == [{"count(*)": 0}]
    assert rows("select count(*) from t") == [{"count(*)": 1}]


@given(text=st.text(alphabet="insertofdalu vm()*,'=1;t", max_size=40))
@settings(
    max_examples=sized(short=40, whole=1000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_text_raises_anything_but_our_own_errors(deployment: Site, text: str) -> None:
    try:
        found = check_text(text)
    except CompactorError:
        return
    answers = []
    try:
        answers += [list(answer.rows) for answer in run(deployment, found)]
    except CompactorError:
        return
    assert len(answers) == len(found)
