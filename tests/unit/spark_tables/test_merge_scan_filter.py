"""The keys by which a merge finds its rows, in the text of its condition."""

from __future__ import annotations

import pytest

from compactor.spark_tables.merge_scan_filter import find_equal_columns

TARGET, SOURCE = (
    ("id", "K", "v", "p", "odd name", "st"),
    ("id", "k", "w", "Odd Name", "r", "1l", "true", "user", "U", "u"),
)


@pytest.mark.parametrize(
    ("on", "found"),
    [
        ("t.id = s.id", [("id", "id")]),
        ("S.ID == T.Id", [("id", "id")]),
        ("(t.k = s.k)", [("K", "k")]),
        ("((t.k = s.k AND t.id=s.id))", [("K", "k"), ("id", "id")]),
        ("t.p = '2026-11-01 and more' and t.id = s.id", [("id", "id")]),
        ("v = w", [("v", "w")]),
        ("w = v and t.v > 7", [("v", "w")]),
        ("t.`odd name` = s.`ODD NAME`", [("odd name", "Odd Name")]),
        ("t.v < s.w and t.id = s.id", [("id", "id")]),
        ("T.ID\t=\r\ns.id", [("id", "id")]),
    ],
)
def test_columns_that_are_equal_in_each_match(on: str, found: list[tuple[str, str]]) -> None:
    """TABLES rule 12: what is joined to them by AND only leaves out more."""
    assert find_equal_columns(on, "t", TARGET, SOURCE) == found


@pytest.mark.parametrize(
    "on",
    [
        "t.id = s.id or t.v = s.w",
        "not t.id = s.id",
        "t.id <=> s.id",
        "t.id = s.id + 1",
        "t.id = -s.id",
        "t.id between 1 and t.v = s.w",
        "case when t.v = 1 and t.id = s.id then true end",
        "(t.id = s.id) = (t.v = s.w)",
        "(t.v = 1 and t.id = s.id) or (t.v = 2)",
        "coalesce(t.id, 0) = s.id",
        "t.id = s.id and s.w in (1, 2)",
        "t.id = s.id and exists (select 1)",
        "t.id != s.id",
        "t.id = t.v",
        "s.id = s.w",
        "t.id = 7",
        "id = s.id",
        "t.id = id",
        "t.st.id = s.id",
        "st.id = s.id",
        "t.id = r.k",
        "t.x = s.id",
        "t.id = s.x",
        "t.id = 'unterminated",
        "t.id = s.id;",
        "t.id = session.w",
        "t.id = s.id /* and */",
        "t.w8 = s.d /* /* */ and t.id = s.id -- */",
        "t.id = s.id -- x\r or true",
        "t.v = s.d -- goes on \\\n and t.id = s.id",
        "t.v = s.w\u00a0or\u00a0true and t.id = s.id",
        "t.id = s.id and t.p = '${a.variable}'",
        "t.id = s.id and t.p = r'\\' or true --'",
        "t.id = 1L",
        "t.id = true",
        "t.id = user",
        "t.k = u.id",
        "",
    ],
)
def test_what_else_a_condition_says_is_left_to_spark(on: str) -> None:
    """A field may have a column's name, a name without a qualifier may be of either side or a variable, OR asks for less,
    and Spark ends comments and literals elsewhere, and puts in variables."""
    assert find_equal_columns(on, "t", TARGET, SOURCE) == []


def test_nothing_is_known_of_a_column() -> None:
    assert find_equal_columns(object(), "t", TARGET, SOURCE) == []


def test_a_name_that_a_side_has_twice_is_left_to_spark() -> None:
    assert find_equal_columns("t.k = s.w", "t", ("k", "K"), SOURCE) == []
    assert find_equal_columns("t.id = s.W", "t", TARGET, ("w", "W")) == []
