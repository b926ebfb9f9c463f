"""Several INSERTs of one query: each has its SELECT, and what reads the query anew for each is refused."""

from __future__ import annotations

import re

import pytest

from compactor.statements.parsed_actions import MultiInsert, NotRun
from compactor.statements.parser import parse
from compactor.statements.spark_text import SparkText


def written(text: str, action: MultiInsert) -> list[str]:
    """The query of each INSERT, with the names of tables in brackets."""
    return [SparkText(text).query(one.query, lambda place: f"[{place.table}]") for one in action.inserts]


def test_each_insert_has_the_tables_behind_from() -> None:
    text = (
        "from s x join d.r on x.a = r.a insert into t (b) select x.a where x.a > 1 "
        "insert into u partition (p=2) select r.b"
    )
    action = parse(text).action
    assert isinstance(action, MultiInsert)
    assert action.source is None
    joined = "from [s] x join [d.r] AS `r` on x.a = r.a"
    assert written(text, action) == [f"{joined} select x.a where x.a > 1", f"{joined} select r.b"]
    assert [(str(one.into.table), one.into.columns, one.into.partition) for one in action.inserts] == [
        ("t", ("b",), None),
        ("u", None, (("p", "2"),)),
    ]


def test_a_query_behind_from_is_evaluated_once() -> None:
    text = "from (select a from s where rand() > 0.5) as q insert into t select a insert into u select q.a limit 3"
    action = parse(text).action
    assert isinstance(action, MultiInsert)
    assert action.source is not None
    assert (
        SparkText(text).query(action.source, lambda place: f"[{place.table}]")
        == "select a from [s] AS `s` where rand() > 0.5"
    )
    assert action.alias == "q"
    assert written(text, action) == ["select a", "select q.a limit 3"]


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("from s insert overwrite table t select a insert into u select b", "INSERT OVERWRITE at line 1, character 8"),
        (
            "from s insert into t select a insert into t select b",
            "INSERT at line 1, character 31 is the second one into t",
        ),
        ("with q as (select 1) from q insert into t select 1 insert into u select 2", "FROM is expected before with"),
        ("from s, (select 1 as b) q insert into t select b insert into u select b", r"\( at line 1, character 9"),
        ("from s tablesample (10 rows) insert into t select a insert into u select a", "tablesample at line 1"),
        ("from s join r on Rand() > 0.5 insert into t select a insert into u select a", "rand at line 1, character 18"),
        ("from (values (uuid())) v insert into t select 1 insert into u select 2", "uuid at line 1, character 15"),
        ("from (select 1 as a) insert into t select a insert into u select a", "is expected"),
        ("from s insert into t values (1) insert into u select a", "SELECT is expected for the INSERT at line 1"),
        ("from s insert into t insert into u select a", "SELECT is expected for the INSERT at line 1, character 8"),
    ],
)
def test_what_is_not_run_says_where(text: str, because: str) -> None:
    statement = parse(text)
    assert isinstance(statement.action, NotRun)
    assert re.search(because, statement.action.because)
    assert len(statement.accesses) >= 2, "its locks are known all the same"
