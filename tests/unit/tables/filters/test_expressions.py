from __future__ import annotations

from decimal import Decimal

import pytest

from compactor.base.errors import BadExpression
from compactor.tables.filters.expressions import (
    And,
    ColumnName,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Or,
    Truth,
    parse,
    seconds_and_nanos,
)


def test_and_binds_more_than_or_and_not_most_of_all() -> None:
    a, b, c = (Truth(operand=ColumnName(name=name, place=place)) for name, place in (("a", 4), ("b", 10), ("c", 15)))
    assert parse("NOT a AND b OR c") == Or(parts=(And(parts=(Not(part=a), b)), c))


def test_words_are_of_any_case_and_columns_are_lower() -> None:
    found = parse("Amount >= 1.50 aNd `Odd ``Name` is NOT null")
    amount = Comparison(
        operator=">=", left=ColumnName(name="amount", place=0), right=Literal(value=Decimal("1.50"), place=10), place=7
    )
    odd = Not(part=IsNull(operand=ColumnName(name="odd `name", place=19)))
    assert found == And(parts=(amount, odd))


def test_between_in_and_like() -> None:
    name = ColumnName(name="a", place=0)
    one, two = Literal(value=Decimal(1), place=10), Literal(value=Decimal(2), place=16)
    ends = tuple(Comparison(operator=sign, left=name, right=end, place=2) for sign, end in ((">=", one), ("<=", two)))
    assert parse("a between 1 and 2") == And(parts=ends)
    values = (Literal(value="x'y", place=10), Literal(value=None, place=18))
    assert parse("a not in ('x''y', NULL)") == Not(
        part=In(
            operand=name,
            values=tuple(Literal(value=v.value, place=p) for v, p in zip(values, (10, 18), strict=True)),
            place=2,
        )
    )
    assert parse('a LIKE "x%"') == Like(operand=name, pattern="x%", place=2)


def test_date_is_a_column_or_introduces_a_literal() -> None:
    found = parse("date = DATE '2026-01-01'")
    assert found == Comparison(
        operator="=",
        left=ColumnName(name="date", place=0),
        right=Literal(value="2026-01-01", place=7, word="DATE"),
        place=5,
    )


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("", 1, "the end was found, a column or a literal was expected"),
        ("a >", 4, "the end was found"),
        ("a > 1 b", 7, "'b' was found, AND, OR or the end was expected"),
        ("a = 1 AND", 10, "the end"),
        ("(a = 1", 7, r"'\)' was expected"),
        ("a IN ()", 7, "a literal was expected|a column or a literal"),
        ("a IN (b)", 7, "'b' was found"),
        ("a NOT 1", 7, "IN, BETWEEN or LIKE was expected"),
        ("a IS 1", 6, "NULL was expected"),
        ("a LIKE 1", 8, "a pattern in quotes"),
        ("a ; DROP", 3, "';' cannot begin"),
        ("a = 'x", 5, '"\'" cannot begin'),
        ("a = 'x\ud800'", 7, "half a character"),
        ("a-1 > 2", 2, "'-1' was found"),
        ("lower(a) = 'x'", 6, r"'\(' was found"),
        ("a = 1 = 2", 7, "'=' was found"),
        ("a = 1e99999999999999999999", 5, "'1e99999999999999999999' was found, a number whose exponent has at most 17"),
        ("a = ٣", 5, "cannot begin"),
        ("a IN (1, -1e99999999999999999999)", 10, "exponent has at most 17 digits was expected"),
        ("a BETWEEN 0e-99999999999999999999 AND 1", 11, "exponent has at most 17 digits was expected"),
        ("NOT " * 101 + "a", 401, "at most 100 levels"),
        ("(" * 101 + "a", 101, "at most 100 levels"),
    ],
)
def test_bad_text_is_an_error_with_its_place(text: str, place: int, what: str) -> None:
    with pytest.raises(BadExpression, match=f"(?s)at character {place}: .*({what})"):
        parse(text)


def test_a_long_text_is_shown_around_its_error() -> None:
    with pytest.raises(BadExpression) as caught:
        parse("a = 1 OR " * 1000 + "?")
    assert len(str(caught.value)) < 400
    with pytest.raises(BadExpression, match="at most 1000000"):
        parse("a" * 1_000_001)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1970-01-01", (0, 0)),
        (" 1970-1-2 ", (86_400, 0)),
        ("1970-01-01 1:02", (3_720, 0)),
        ("1970-01-01T00:00:01.5", (1, 500_000_000)),
        ("1969-12-31 23:59:59.000000001", (-1, 1)),
        ("9999-12-31 23:59:59", (253_402_300_799, 0)),
    ],
)
def test_a_text_is_seconds_and_nanoseconds(text: str, found: tuple[int, int]) -> None:
    assert seconds_and_nanos(text) == found


def test_a_day_has_no_time() -> None:
    assert seconds_and_nanos("1970-01-02", is_date=True) == (86_400, 0)
    with pytest.raises(ValueError, match="yyyy-mm-dd was expected"):
        seconds_and_nanos("1970-01-02 00:00", is_date=True)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2020-01-01.5",
        "2020-01-01 10",
        "2020-01-01 10.5",
        "2020-01-01 10:00.5",
        "2020-01-01 10:00:00.",
        "2020-01-01 10:00:00.0123456789",
        "2020-01-01 10:00:00.٣",
        "٢٠٢٠-01-01",
    ],
)
def test_another_form_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"yyyy-mm-dd hh:mm:ss\.fraction was expected"):
        seconds_and_nanos(text)


@pytest.mark.parametrize("text", ["2026-02-30", "0000-01-01", "2026-01-01 24:00", "2026-01-01 00:60"])
def test_a_day_or_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must be in|out of range"):
        seconds_and_nanos(text)
