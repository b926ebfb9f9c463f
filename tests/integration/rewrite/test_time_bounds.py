"""Times with digits below a millisecond, and before the Gregorian calendar, are found in what is encoded (PROTOCOL 2.7)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.orc.reencode import encode_acid
from tests.judges import Predicate, orc_1_5, orc_2_3
from tests.judges.values import time_nanos

ROW = "struct<t:timestamp>"
FINE = "2020-07-01 12:00:00.123456000"
VALUES = {
    "microseconds": [FINE],
    "microseconds and NULL": [None, FINE],
    "microseconds behind milliseconds": ["2020-07-01 12:00:00.123000000", FINE],
    "milliseconds": ["2020-07-01 12:00:00.123000000"],
    "before 1970": ["1969-12-31 23:59:58.000001000"],
    "before 1582": ["1500-01-01 00:00:00.000000000", "1500-03-01 00:00:00.500000000"],
}


WAYS = {
    "arrow": (ARROW, Compression.ZLIB),
    "arrow, snappy": (ARROW, Compression.SNAPPY),
    "pyorc": (PYORC, Compression.NONE),
}


def _encodable(text: str | None, codec: Codec) -> Any:
    if text is None:
        return None
    nanos = time_nanos(text)
    if codec is ARROW:
        return pa.scalar(nanos, pa.timestamp("ns"))
    seconds, rest = divmod(nanos, 1_000_000_000)
    return {"seconds": seconds, "nanos": rest}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", VALUES)
def test_encoded_times_are_found(name: str, way: str, tmp_path: Path) -> None:
    codec, compression = WAYS[way]
    if codec is ARROW and "before" in name:
        codec = PYORC  # as the product does
    values = VALUES[name]
    types = parse_hive_type(ROW)
    batch = pa.RecordBatch.from_pylist([{"t": _encodable(value, codec)} for value in values], codec.schema(types))
    path = tmp_path / "file"
    encode_acid([batch], path, like=empty_tail(types, compression=compression), types=types, codec=codec)
    literals = [*filter(None, values), "2020-07-01 12:00:00.123000000", "2020-07-01 12:00:00.124000000"]
    predicates = [
        Predicate("t", operator, (literal,), negated)
        for operator, literal, negated in product(("=", "<", "<=", "in"), literals, (False, True))
    ]
    for judge in (orc_1_5(), orc_2_3()):
        everything, *answers = judge.answers(path, [None, *predicates])
        assert len(everything) == len(values)
        for predicate, answer in zip(predicates, answers, strict=True):
            assert [row for row in everything if predicate.matches(row, ROW)] == answer, (judge.name, predicate)
