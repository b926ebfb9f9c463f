"""SELECT without an engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.base.errors import BadExpression, NotFound
from compactor.site.site import Site
from compactor.tables.sql.answer import Answer
from compactor.tables.sql.run_statements import check_text, run

Ask = Callable[[str], Answer]


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
