from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

from compactor.base.errors import NotSupported
from compactor.orc.codecs.arrow_types import ArrowType
from compactor.orc.codecs.pyorc_codec import TIMESTAMP
from compactor.orc.format.hive_types import parse_hive_type
from compactor.tables.reading.arrow_values import Fit, convert
from compactor.tables.schema import PARTS

NANOS, MICROS = pa.timestamp("ns"), pa.timestamp("us")
PAIRS = [{"seconds": -1, "nanos": 500_000_000}, None, {"seconds": 10, "nanos": 123_456_789}]


def fit(kind: ArrowType, text: str = "timestamp", *, is_hybrid: bool = False) -> Fit:
    return Fit(types=parse_hive_type(text), column=0, kind=kind, name="t", is_hybrid=is_hybrid)


def test_parts_become_nanoseconds_and_back() -> None:
    found = convert(pa.array(PAIRS, TIMESTAMP), fit(NANOS))
    assert found.cast(pa.int64()).to_pylist() == [-500_000_000, None, 10_123_456_789]
    assert convert(found, fit(PARTS)).to_pylist() == PAIRS
    assert convert(found, fit(NANOS)) is found


def test_microseconds_reach_everywhere_and_cut_digits() -> None:
    parts = pa.array([{"seconds": 253402300799, "nanos": 999_999_999}], TIMESTAMP)
    assert convert(parts, fit(MICROS)).to_pylist() == [datetime(9999, 12, 31, 23, 59, 59, 999999)]
    assert convert(pa.array([-1], pa.int64()).cast(NANOS), fit(MICROS)).cast(pa.int64()).to_pylist() == [-1]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(NotSupported, match="column t: the timestamp 9999-12-31 23:59:59 does not fit"):
        convert(pa.array([{"seconds": 253402300799, "nanos": 0}], TIMESTAMP), fit(NANOS))


def test_early_days_of_a_hybrid_file_keep_their_date() -> None:
    parts = pa.array([{"seconds": -141_428 * 86_400, "nanos": 7}], TIMESTAMP)
    assert convert(parts, fit(MICROS, is_hybrid=True)).to_pylist() == [datetime(1582, 10, 4)]
    days = pa.array([-719_164, None], pa.int32()).cast(pa.date32())
    assert str(convert(days, fit(pa.date32(), "date", is_hybrid=True))[0]) == "0001-01-01"
    assert convert(days, fit(pa.date32(), "date")) is days


def test_timestamps_at_any_depth() -> None:
    kind = pa.list_(pa.struct([pa.field("m", pa.map_(pa.string(), TIMESTAMP))]))
    rows = [[{"m": [("k", PAIRS[2])]}], None, [None, {"m": None}], []]
    wanted = pa.list_(pa.struct([pa.field("m", pa.map_(pa.string(), MICROS))]))
    found = convert(pa.array([[], *rows], kind).slice(1), fit(wanted, "array<struct<m:map<string,timestamp>>>"))
    found.validate(full=True)
    assert found.to_pylist()[1:] == [None, [None, {"m": None}], []]
    assert found.to_pylist()[0][0]["m"][0][1] == datetime(1970, 1, 1, 0, 0, 10, 123456)
