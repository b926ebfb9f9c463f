from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from compactor.base.errors import BadExpression
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import Compared, Constant, OneOf, Settled
from tests.unit.tables.filters.test_evaluation import SCHEMA


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("i > 10.5", ">", 10),
        ("i >= 10.5", ">", 10),
        ("i < 10.5", "<=", 10),
        ("10.5 > i", "<=", 10),
        ("i <= -10.5", "<=", -11),
        ("n > 1.234", ">", Decimal("1.23")),
        ("n = 1.2300", "=", Decimal("1.23")),
        ("d = '2026-11-01'", "=", 20758),
        ("t = '1970-01-01 00:00:01.5'", "=", 1_500_000_000),
        ("b", "=", True),
        ("c = 'ab  '", "=", b"ab"),
        ("f = 1", "=", 1.0),
    ],
)
def test_a_literal_becomes_a_value_of_the_column(text: str, operator: str, value: object) -> None:
    found = bind(text, SCHEMA, ["c"])
    assert isinstance(found, Compared)
    assert (found.operator, found.value) == (operator, value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i = 10.5", False),
        ("i <> 10.5", True),
        ("i < 3000000000", True),
        ("i >= 3000000000", False),
        ("i > -3000000000", True),
        ("n < 1e300", True),
        ("t > '9999-12-31'", False),
    ],
)
def test_what_no_value_decides_otherwise_is_settled(text: str, value: bool) -> None:
    found = bind(text, SCHEMA)
    assert isinstance(found, Settled)
    assert found.value is value


def test_null_makes_a_comparison_unknown() -> None:
    assert bind("i = NULL", SCHEMA) == Constant(value=None)
    found = bind("i in (1, 1.0, 2.5, NULL)", SCHEMA)
    assert isinstance(found, OneOf)
    assert (found.values, found.or_null) == ((1,), True)


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("z = 1", 1, "there is no column 'z'; there are i, n"),
        ("i = '1'", 5, "column i is int32, a number without quotes was expected"),
        ("s = 1", 5, "column s is string, a text in quotes was expected"),
        ("b = 1", 5, "TRUE or FALSE"),
        ("l = 1", 5, "IS NULL or IS NOT NULL was expected"),
        ("d = '2026-02-30'", 5, "not a date"),
        ("d = '2026-02-03 10:00:00'", 5, "yyyy-mm-dd was expected"),
        ("t = 'now'", 5, "hh:mm:ss.fraction was expected"),
        ("t = '2026-01-01.5'", 5, "not a timestamp: yyyy-mm-dd hh:mm:ss.fraction was expected"),
        ("t = '2026-01-01 10:00:00.٣'", 5, "hh:mm:ss.fraction was expected"),
        ("d = TIMESTAMP '2026-01-01'", 5, "a date in quotes"),
        ("1 = 1", 3, "two literals"),
        ("i", 1, "column i is not a boolean"),
        ("5", 1, "a condition was expected"),
        ("i = s", 3, "cannot be compared"),
        ("i like 'x'", 3, "LIKE is for text"),
        ("1 in (1)", 3, "a column was expected before IN"),
        ("i = 1e999999999", 5, "too large"),
        (f"i = 0.{'1' * 200}", 5, "too long"),
    ],
)
def test_what_cannot_be_compared_is_an_error_with_its_place(text: str, place: int, what: str) -> None:
    with pytest.raises(BadExpression, match=f"at character {place}: .*{what}"):
        bind(text, SCHEMA)


def test_fields_of_other_case_are_found() -> None:
    found = bind("ABC = 1", pa.schema({"Abc": pa.int64()}))
    assert isinstance(found, Compared)
    assert found.column.name == "Abc"
