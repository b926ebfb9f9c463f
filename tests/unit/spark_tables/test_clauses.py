"""The clauses of a merge, and the columns that a text may mean."""

from __future__ import annotations

import pytest

from compactor.base.errors import NotConforming, NotFound, Refused
from compactor.spark_tables.clauses import (
    Clause,
    assigned_columns,
    find_columns,
    is_plain,
    map_by_column,
    must_be_complete,
    name_columns,
)
from compactor.tables.writing.row_change import RowChangeKind

UPDATE, DELETE = (
    Clause(kind=RowChangeKind.UPDATE, values={"b": "1", "A": "2"}),
    Clause(kind=RowChangeKind.DELETE, values={}),
)
INSERT = Clause(kind=RowChangeKind.INSERT, values={"c": "3"})


def test_a_clause_that_no_row_reaches_is_refused() -> None:
    some = Clause(kind=RowChangeKind.DELETE, condition="x", values={})
    must_be_complete([some, INSERT, UPDATE])
    with pytest.raises(Refused, match="no row reaches the clause"):
        must_be_complete([UPDATE, INSERT, some])
    with pytest.raises(Refused, match="no clause"):
        must_be_complete([])


@pytest.mark.parametrize("kind", [RowChangeKind.UPDATE, RowChangeKind.INSERT])
def test_a_clause_that_names_no_column_is_refused(kind: RowChangeKind) -> None:
    must_be_complete([DELETE, Clause(kind=kind)] if kind is RowChangeKind.INSERT else [Clause(kind=kind)])
    with pytest.raises(Refused, match="set or values is empty"):
        must_be_complete([Clause(kind=kind, values={})])


def test_columns_that_are_assigned_are_those_of_updates() -> None:
    assert assigned_columns([INSERT, DELETE]) is None
    assert assigned_columns([INSERT, UPDATE]) == ("A", "b")
    assert assigned_columns([Clause(kind=RowChangeKind.UPDATE)]) == ()


def test_values_are_by_the_tables_names() -> None:
    assert map_by_column({"AB": "1"}, ("ab", "c"), "db.t") == {"ab": "1"}
    with pytest.raises(NotFound, match=r"db\.t has no column 'd'; it has ab, c"):
        map_by_column({"d": "1"}, ("ab", "c"), "db.t")
    with pytest.raises(Refused, match="ab is named twice"):
        map_by_column({"AB": "1", "ab": "2"}, ("ab", "c"), "db.t")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a > 1 and t.B = 'x'", ("a", "b", "odd name")),
        ("`c` in (select a from s)", ("a", "c", "odd name")),
        ("ab = 1", ("odd name",)),
        ("to_json(struct(*)) = ''", None),
        ("${a.condition}", None),
        (object(), None),
        (None, ("odd name",)),
    ],
)
def test_a_text_means_no_column_whose_name_is_no_word_of_it(text: str, found: tuple[str, ...] | None) -> None:
    """TABLES rule 12: Spark reads every column that is declared."""
    assert find_columns([text], ("a", "b", "c", "odd name")) == found


def test_only_a_name_is_sure_to_be_the_same_again() -> None:
    assert [is_plain(one) for one in ("s.day", " day ", None, "rand()", "a + b", "`x`")] == [True] * 3 + [False] * 3


def test_a_row_to_insert_has_the_columns_of_the_locked_table() -> None:
    """PROTOCOL 14.25"""
    row = Clause(kind=RowChangeKind.INSERT, condition="x", row=("1", "2"))
    must_be_complete([row])
    assert name_columns(row, ("b", "a"), "db.t") == Clause(
        kind=RowChangeKind.INSERT, condition="x", values={"b": "1", "a": "2"}
    )
    named = Clause(kind=RowChangeKind.INSERT, row=("1",), named=("a",))
    assert name_columns(named, ("b", "a"), "db.t").values == {"a": "1"}
    assert name_columns(INSERT, ("b", "a"), "db.t") is INSERT
    with pytest.raises(NotConforming, match=r"db\.t: a row has 2 values; expected are 3, for a, b, c"):
        name_columns(row, ("a", "b", "c"), "db.t")
    with pytest.raises(Refused, match="column a is named twice"):
        name_columns(Clause(kind=RowChangeKind.INSERT, row=("1", "2"), named=("a", "a")), ("a", "b"), "db.t")
