from __future__ import annotations

import pytest

from compactor.base.errors import BadStatement
from compactor.statements.parsed_actions import NeedsSpark, Select
from compactor.statements.parser import parse


@pytest.mark.parametrize(
    ("listed", "columns", "count"),
    [
        ("*", None, False),
        ("count(*)", None, True),
        ("count", ("count",), False),
        ("`count`", ("count",), False),
        ("t.count", ("count",), False),
        ("count, a", ("count", "a"), False),
        ("`*`", ("*",), False),
        ("`count(*)`", ("count(*)",), False),
    ],
)
def test_columns_are_told_from_the_star_and_the_count(
    listed: str, columns: tuple[str, ...] | None, count: bool
) -> None:
    action = parse(f"select {listed} from t").action
    assert isinstance(action, Select)
    assert (action.columns, action.count) == (columns, count)


@pytest.mark.parametrize("listed", ["count(a)", "*, a", "count(*), a", "`count`(*)"])
def test_more_than_that_is_a_query_for_spark(listed: str) -> None:
    assert isinstance(parse(f"select {listed} from t").action, NeedsSpark)


def test_a_version_follows_the_table() -> None:
    action = parse("select a from t for system_version as of 17 as x where x.a > 1 limit 2").action
    assert isinstance(action, Select)
    assert (action.as_of, action.where, action.limit) == (17, "a > 1", 2)
    with pytest.raises(BadStatement, match="character 42"):
        parse("select a from t for system_version as of x")


@pytest.mark.parametrize("version", ["system_time as of 17", "version as of 17"])
def test_other_versions_are_queries_for_spark(version: str) -> None:
    assert isinstance(parse(f"select a from t for {version}").action, NeedsSpark)
