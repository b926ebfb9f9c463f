from __future__ import annotations

from decimal import Decimal

import pytest

from compactor.acid.row_figures import ColumnFigures
from compactor.metastore.statistics.columns import agrees, exact_figures, has_no_estimate, is_proven


def column(type: str, values: int = 3, **figures: object) -> ColumnFigures:
    return ColumnFigures(name="a", type=type, values=values, **figures)  # type: ignore[arg-type] # by the test's table


LONG = {"LONG_LOW_VALUE": 1, "LONG_HIGH_VALUE": 2}
NO_LONG = {"LONG_LOW_VALUE": None, "LONG_HIGH_VALUE": None}


@pytest.mark.parametrize(
    ("found", "wanted", "proved"),
    [
        (column("tinyint", low=1, high=2), LONG, True),
        (column("bigint", low=1, high=2), LONG, True),
        (column("date", low=1, high=2), LONG, True),
        (column("int", 0), NO_LONG, True),
        (column("int", low=1), {}, False),
        (column("double", low=-1.5, high=2.5), {"DOUBLE_LOW_VALUE": -1.5, "DOUBLE_HIGH_VALUE": 2.5}, True),
        (column("float", low=0.0, high=2.5), {}, False),  # which zero?
        (column("double", low=-1.0, high=-0.0), {}, False),
        (
            column("decimal(10,2)", low=Decimal("-1.50"), high=Decimal("1E+2")),
            {"BIG_DECIMAL_LOW_VALUE": "-1.5", "BIG_DECIMAL_HIGH_VALUE": "100"},
            True,
        ),
        (
            column("decimal(10,2)", low=Decimal("0.00"), high=Decimal("0.01")),
            {"BIG_DECIMAL_LOW_VALUE": "0", "BIG_DECIMAL_HIGH_VALUE": "0.01"},
            True,
        ),
        (column("boolean", trues=1), {"NUM_TRUES": 1, "NUM_FALSES": 2}, True),
        (column("boolean"), {}, False),
        (column("string"), {}, False),
        (column("varchar(10)"), {}, False),
        (column("timestamp"), {}, False),
        (column("binary"), {}, False),
        (column(""), {}, False),
    ],
)
def test_what_is_exact_of_each_type(found: ColumnFigures, wanted: dict[str, object], proved: bool) -> None:
    assert exact_figures(found, 5) == {"NUM_NULLS": 5 - found.values, **wanted}
    assert is_proven(found) is proved


def test_only_a_boolean_has_nothing_but_exact_figures() -> None:
    assert has_no_estimate(column("boolean"))
    assert not any(has_no_estimate(column(type)) for type in ("int", "string", "binary", "double"))


def test_figures_agree_by_value() -> None:
    stored = {"NUM_NULLS": 1, "BIG_DECIMAL_LOW_VALUE": "1.50", "LONG_LOW_VALUE": None, "NUM_DISTINCTS": 3}
    assert agrees(stored, {"NUM_NULLS": 1, "BIG_DECIMAL_LOW_VALUE": "1.5"})
    assert agrees(stored, {"LONG_LOW_VALUE": None})
    assert not agrees(stored, {"LONG_LOW_VALUE": 0})
    assert not agrees(stored, {"NUM_NULLS": 2})
    assert not agrees({"BIG_DECIMAL_LOW_VALUE": "?"}, {"BIG_DECIMAL_LOW_VALUE": "1"})
