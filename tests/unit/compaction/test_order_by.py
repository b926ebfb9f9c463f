from __future__ import annotations

import pytest

from compactor.base.errors import Refused
from compactor.compaction.order_by import OrderBy, check_columns, format_order_by, parse_order_by

A = OrderBy(column="a")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a", (A,)),
        ("A asc", (A,)),
        ("order by a desc", (OrderBy(column="a", descending=True, nulls_first=True),)),
        ("ORDER  BY `a`, b", (A, OrderBy(column="b"))),
        ("a nulls first", (OrderBy(column="a", nulls_first=True),)),
        ("a DESC NULLS LAST , b", (OrderBy(column="a", descending=True), OrderBy(column="b"))),
        (
            "`odd ``name, desc` desc nulls first",
            (OrderBy(column="odd `name, desc", descending=True, nulls_first=True),),
        ),
    ],
)
def test_the_forms_that_hive_and_people_write(text: str, wanted: tuple[OrderBy, ...]) -> None:
    found = parse_order_by(text)
    assert found == wanted
    assert parse_order_by(format_order_by(found) or "") == wanted


@pytest.mark.parametrize(
    "text", ["", "a,", "a b", "a + 1", "lower(a)", "t.a", "a desc desc", "`a", "order by ,", "a, ,b"]
)
def test_any_other_order_by_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(Refused, match="ORDER BY"):
        parse_order_by(text)


def test_a_column_twice_is_refused() -> None:
    with pytest.raises(Refused, match="twice"):
        parse_order_by("a, b, A desc")


def test_stored_as_hive_stores_it() -> None:
    assert format_order_by(parse_order_by("a desc")) == "order by a desc"
    assert format_order_by(parse_order_by("a desc nulls last, `1b` nulls first")) == (
        "order by a desc nulls last, `1b` nulls first"
    )
    assert format_order_by(()) is None


def test_order_by_columns_must_be_in_the_rows() -> None:
    types = {"a": "int", "m": "map<string,int>"}
    check_columns("d.t", (A,), types, {"p"})
    for column, said in (("b", "no such column"), ("p", "partition column"), ("m", "has no order")):
        with pytest.raises(Refused, match=f"d.t: ORDER BY {column}: .*{said}"):
            check_columns("d.t", (OrderBy(column=column),), types, {"p"})
