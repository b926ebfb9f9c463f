from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pytest

from compactor.errors import NotSupported
from compactor.orc.codecs.pyorc_codec import TIMESTAMP
from compactor.tables.timestamps import fitted

NANOS, MICROS = pa.timestamp("ns"), pa.timestamp("us")
PAIRS = [{"seconds": -1, "nanos": 500_000_000}, None, {"seconds": 10, "nanos": 123_456_789}]


def test_parts_become_nanoseconds() -> None:
    found = fitted(pa.array(PAIRS, TIMESTAMP), NANOS, "t")
    assert found.cast(pa.int64()).to_pylist() == [-500_000_000, None, 10_123_456_789]


def test_microseconds_reach_everywhere_and_cut_digits() -> None:
    parts = pa.array([{"seconds": 253402300799, "nanos": 999_999_999}], TIMESTAMP)
    assert fitted(parts, MICROS, "t").to_pylist() == [datetime(9999, 12, 31, 23, 59, 59, 999999)]
    assert fitted(pa.array([-1], pa.int64()).cast(NANOS), MICROS, "t").cast(pa.int64()).to_pylist() == [-1]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(NotSupported, match="column t: the timestamp 9999-12-31 23:59:59 does not fit"):
        fitted(pa.array([{"seconds": 253402300799, "nanos": 0}], TIMESTAMP), NANOS, "t")


def test_timestamps_at_any_depth() -> None:
    kind = pa.list_(pa.struct([pa.field("m", pa.map_(pa.string(), TIMESTAMP))]))
    rows = [[{"m": [("k", PAIRS[2])]}], None, [None, {"m": None}], []]
    wanted = pa.list_(pa.struct([pa.field("m", pa.map_(pa.string(), MICROS))]))
    found = fitted(pa.array([[], *rows], kind).slice(1), wanted, "t")
    found.validate(full=True)
    assert found.to_pylist()[1:] == [None, [None, {"m": None}], []]
    assert found.to_pylist()[0][0]["m"][0][1] == datetime(1970, 1, 1, 0, 0, 10, 123456)
