from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given

from compactor.tables.filters.binding import bind
from compactor.tables.filters.evaluation import evaluate, match_rows
from compactor.tables.filters.outcomes import ColumnFacts, find_outcomes, may_match, single_value_facts
from tests.support import scanned
from tests.support.filters import Filter, filters

SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "n": pa.decimal128(12, 2),
        "f": pa.float64(),
        "s": pa.string(),
        "c": pa.string(),
        "d": pa.date32(),
        "t": pa.timestamp("ns"),
        "b": pa.bool_(),
        "l": pa.list_(pa.int32()),
    }
)
ROWS = [
    *scanned.make_rows(300),
    *({**row, "s": "ä\nkey", "c": "ab  "} for row in scanned.make_rows(3000)[1500:1520]),
    *({**row, "s": r"\ab", "c": "a\\b "} for row in scanned.make_rows(3000)[1520:1530]),
]
BATCH = pa.RecordBatch.from_pylist(ROWS, SCHEMA)


@given(filters())
def test_every_filter_means_what_the_slow_model_says(one: Filter) -> None:
    """SQL's three-valued logic, row by row in plain Python."""
    found = evaluate(bind(one.text, SCHEMA, ["c"]), BATCH)
    assert found.to_pylist() == [one.meaning(row) for row in ROWS], one.text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("t > '1970-01-01 00:00:00.000000001'", [False, None, True]),
        ("t = timestamp '1970-01-01 00:00:00.000000001'", [True, None, False]),
        ("t in ('9999-12-31 23:59:59.999999999', null)", [None, None, True]),
        ("t < '1970-01-02'", [True, None, False]),
    ],
)
def test_timestamps_in_parts_are_compared_to_the_nanosecond(text: str, wanted: list[bool | None]) -> None:
    kind = pa.struct([pa.field("seconds", pa.int64()), pa.field("nanos", pa.int32())])
    parts = [{"seconds": 0, "nanos": 1}, None, {"seconds": 253402300799, "nanos": 999999999}]
    batch = pa.RecordBatch.from_arrays([pa.array(parts, kind)], names=["t"])
    assert evaluate(bind(text, batch.schema, parts=["t"]), batch).to_pylist() == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("f = 0.1", [True, False, None]),
        ("f <= 0.1", [True, False, None]),
        ("f < 0.1", [False, False, None]),
        ("f in (0.1, 3.4028235E38)", [True, True, None]),
        ("f < 1E39", [True, True, None]),
    ],
)
def test_a_literal_is_the_nearest_float_beside_floats(text: str, wanted: list[bool | None]) -> None:
    """As Hive compares them: a float that was written as 0.1 is found by 0.1, which is no float [seen]."""
    batch = pa.record_batch({"f": pa.array([0.1, 3.4028235e38, None], pa.float32())})
    assert evaluate(bind(text, batch.schema), batch).to_pylist() == wanted


@pytest.mark.parametrize(
    ("pattern", "text", "wanted"),
    [
        (r"\a%", r"\abc", True),
        (r"\a%", "abc", False),
        ("%a\\", "a\\", True),
        ("\\", "\\", True),
        (r"%\b%", r"a\bc", True),
        (r"_\b%", r"a\bc", True),
        (r"%\\%", r"a\%", True),
        (r"%\\%", r"a\\b", False),
        (r"a\_", "a_", True),
        (r"a\_", "ab", False),
        ("%.%", "ab", False),
        ("%%", "", True),
        ("%", "a\nb", True),
        ("a_b", "a\nb", True),
        ("a_", "aé", True),
    ],
)
def test_a_backslash_takes_percent_and_underscore_alone(pattern: str, text: str, wanted: bool) -> None:
    """As Hive's ``UDFLike.likePatternToRegExp`` reads a pattern, whatever its kind."""
    batch = pa.record_batch({"s": [text, None]})
    condition = bind(f"s like '{pattern}'", batch.schema)
    assert evaluate(condition, batch).to_pylist() == [wanted, None]
    assert find_outcomes(condition, {"s": single_value_facts(text.encode())}) == {wanted}
    assert not wanted or may_match(condition, {"s": ColumnFacts(low=text.encode(), high=f"{text}z".encode())})


def test_decimals_of_very_different_scales_are_compared() -> None:
    large = pa.array([Decimal(10**37), Decimal(1), None], pa.decimal128(38, 0))
    small = pa.array([Decimal("0.5"), Decimal(1), Decimal(1)], pa.decimal128(38, 37))
    batch = pa.record_batch({"a": large, "z": small})
    assert evaluate(bind("a > z", batch.schema), batch).to_pylist() == [True, False, None]


def test_unknown_rows_do_not_match() -> None:
    batch = pa.record_batch({"a": pa.array([1, None, 3])})
    assert match_rows(bind("a > 1", batch.schema), batch).to_pylist() == [False, False, True]
