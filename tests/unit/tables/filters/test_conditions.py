from __future__ import annotations

import pyarrow as pa
import pytest

from compactor.tables.filters.conditions import FilterColumn, Matches, ValueKind, find_columns, to_scalar
from tests.unit.tables.filters.test_evaluation import SCHEMA


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        ("abc%", b"abc"),
        ("a_c", b"a"),
        ("%", b""),
        (r"a\%b%", b"a%b"),
        (r"a\b%", rb"a\b"),
        ("ä_", "ä".encode()),
        ("x", b"x"),
    ],
)
def test_the_prefix_of_a_pattern(pattern: str, prefix: bytes) -> None:
    column = FilterColumn(name="s", kind=ValueKind.TEXT, type=pa.string())
    assert Matches(column=column, pattern=pattern).prefix == prefix


def test_the_columns_of_a_condition() -> None:
    from compactor.tables.filters.binding import bind

    text = "(i = 1 or not s like 'x') and (d is null or c = s) and n in (1) and true and t > '9999-01-01'"
    assert set(find_columns(bind(text, SCHEMA))) == {"i", "s", "d", "c", "n", "t"}


def test_values_in_arrow() -> None:
    times = FilterColumn(name="t", kind=ValueKind.TIMESTAMP, type=pa.timestamp("us"))
    assert to_scalar(times, 1_500).value == 1
    assert to_scalar(FilterColumn(name="d", kind=ValueKind.DATE, type=pa.date32()), 3).value == 3
