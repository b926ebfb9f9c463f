from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa
import pytest

from compactor.base.errors import NotConforming
from compactor.tables.writing.literals import build_literal_array, build_literal_arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class _Value:
    value: Decimal | str | bool | None


def many(*values: Decimal | str | bool | None, kind: pa.DataType) -> list[object]:
    return build_literal_arrays([_Value(value=value) for value in values], kind, "t: column c").to_pylist()


def test_numbers_are_those_of_the_column() -> None:
    assert many(Decimal("1"), None, Decimal("1e3"), kind=pa.int32()) == [1, None, 1000]
    assert many(Decimal("0.1"), kind=pa.float64()) == [0.1]
    assert many(Decimal("1.5"), Decimal("2"), kind=pa.decimal128(5, 2)) == [Decimal("1.5"), Decimal("2")]
    assert many(None, None, kind=pa.int32()) == [None, None]


def test_days_and_times_are_read_from_texts() -> None:
    assert [str(day) for day in many("2026-11-01", "1500-01-01", kind=pa.date32())] == ["2026-11-01", "1500-01-01"]
    first, second = many("1970-01-01 00:00:01.5", None, kind=pa.timestamp("ns"))
    assert (first, second) == ({"seconds": 1, "nanos": 500_000_000}, None)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("soon", pa.date32()),
        ("2026-11-01 00:00:00.0123456789", pa.timestamp("ns")),
        ("2020-01-01.5", pa.timestamp("ns")),
        ("2020-01-01 10.5", pa.timestamp("ns")),
        ("2020-01-01 10:00:00.٣", pa.timestamp("ns")),
        ("2026-02-30 10:00:00", pa.timestamp("ns")),
        (Decimal("1e99999999"), pa.int64()),
        (Decimal("1e400"), pa.float64()),
        (Decimal("-1e400"), pa.float32()),
    ],
)
def test_what_is_no_value_is_named(value: Decimal | str, kind: pa.DataType) -> None:
    with pytest.raises(NotConforming, match="t: column c"):
        build_literal_array(_Value(value=value), kind, "t: column c")
    with pytest.raises(NotConforming, match="t: column c"):
        many(value, None, kind=kind)


@pytest.mark.parametrize(
    "kind",
    [
        pa.float32(),
        pa.float64(),
        pa.int64(),
        pa.decimal128(5, 2),
        pa.string(),
        pa.binary(),
        pa.date32(),
        pa.timestamp("ns"),
    ],
)
def test_truth_is_no_value_of_another_kind(kind: pa.DataType) -> None:
    """Arrow itself makes TRUE a 1.0 beside a double."""
    for values in ((True,), (Decimal(1), True), (False, Decimal("1.5")), (None, True)):
        with pytest.raises(NotConforming, match=rf"^t: column c: is given as bool; expected: {re.escape(str(kind))}$"):
            many(*values, kind=kind)
    with pytest.raises(NotConforming, match="is given as bool"):
        build_literal_array(_Value(value=True), kind, "t: column c")


def test_a_boolean_has_no_other_values() -> None:
    assert many(True, None, False, kind=pa.bool_()) == [True, None, False]
    for given, name in ((Decimal(1), "a number"), ("true", "string")):
        with pytest.raises(NotConforming, match=f"^t: column c: is given as {name}; expected: bool$"):
            many(True, given, kind=pa.bool_())


def test_values_of_several_kinds_are_refused() -> None:
    with pytest.raises(NotConforming, match="t: column c"):
        many("a", Decimal("1"), kind=pa.string())
