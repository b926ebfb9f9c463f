"""Rows with NaN and either zero are found in what is encoded, by every reader and predicate (PROTOCOL 2.7)."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.stripe_footer import filter_streams, read_stripe_footer
from compactor.orc.format.tail import empty_tail, read_tail
from compactor.orc.io.source import LocalSource
from compactor.orc.reencode import encode_acid
from tests.judges import PYORC as PYORC_JUDGE
from tests.judges import Predicate, orc_1_5, orc_2_3, trino_476
from tests.support.mixtures import File, make_unit
from tests.support.units import execute

NAN, INFINITY = float("nan"), float("inf")
COLUMNS = "i:int,d:double,f:float,s:struct<e:double>"
ROW = f"struct<{COLUMNS}>"
GROUP = 1000
ID = 7  #: number of the column in an ACID file
WAYS: dict[str, tuple[Codec, Compression]] = {
    "arrow": (ARROW, Compression.ZLIB),
    "arrow in stripes": (ARROW, Compression.ZLIB),
    "arrow, snappy": (ARROW, Compression.SNAPPY),
    "pyorc": (PYORC, Compression.NONE),
}
VALUES = {
    "NaN first": [NAN, 1.0, 2.0, None],
    "NaN last": [1.0, 2.0, NAN],
    "NaN alone": [NAN],
    "zeros": [0.0, 0.0],
    "negative zeros": [-0.0],
    "both zeros": [0.0, -0.0, 1.0],
    "negative zero last": [-1.0, -0.0],
    "zero inside": [-1.0, 0.0, 1.0],
    "infinities": [INFINITY, -INFINITY, 1.0],
    "NULL": [None],
    "NaN in the second row group": [*[7.0] * GROUP, NAN, 3.0],
    "zero in the second row group": [*[-7.0] * GROUP, -0.0, 5.0],
}
LITERALS = (0.0, -0.0, 1.0, 3.0, INFINITY)


def _predicates(column: str) -> list[Predicate]:
    """Returns predicates on a column; ``not <=>`` is left out, since ORC 1.5 never finds a NULL by it."""
    ranges = [
        Predicate(column, operator, (literal,), negated)
        for operator, literal, negated in product(("=", "<", "<=", "in"), LITERALS, (False, True))
    ]
    between = [
        Predicate(column, "between", bounds, negated)
        for bounds in product(LITERALS[:3], LITERALS[:4])
        for negated in (False, True)
    ]
    nulls = [Predicate(column, "is null", (), negated) for negated in (False, True)]
    return [*ranges, *between, *nulls, *(Predicate(column, "<=>", (literal,)) for literal in LITERALS)]


def _check(path: Path, values: list[Any]) -> None:
    predicates = [*_predicates("d"), *_predicates("f")]
    if len(values) > GROUP:  # many rows
        predicates = [Predicate(column, "=", (literal,)) for column in "df" for literal in (0.0, values[-1])]
    for judge in (orc_1_5(), orc_2_3(), trino_476(), PYORC_JUDGE):
        everything, *answers = judge.answers(path, [None, *predicates])
        for predicate, answer in zip(predicates, answers, strict=True):
            right = [row for row in everything if predicate.matches(row, ROW)]
            assert repr(answer) == repr(right), (judge.name, predicate)


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.whole) if "snappy" in way else way for way in WAYS]
)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_encoded_rows_are_found(values: list[Any], way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    codec, compression = WAYS[way]
    if way == "arrow in stripes":
        monkeypatch.setattr(arrow_codec, "BUFFERED_BYTES", 0)
    types = parse_hive_type(ROW)
    rows = [{"i": number, "d": value, "f": value, "s": {"e": value}} for number, value in enumerate(values)]
    batch = pa.RecordBatch.from_pylist(rows, codec.schema(types))
    like = empty_tail(types, compression=compression, row_index_stride=GROUP)
    filtered = () if NAN in values else (2, 3, 5)
    path = tmp_path / "file"
    tail = encode_acid([batch], path, like=like, types=types, codec=codec, filtered=filtered)
    with LocalSource(path) as source:
        filters = {stream.column for stream in filter_streams(read_stripe_footer(source, tail, 0))}
    assert filters == set(filtered)
    _check(path, values)


@pytest.mark.parametrize("values", [[0.0, 5.0], [-0.0, -5.0], [NAN, 1.0, 3.0]], ids=["zero", "negative zero", "NaN"])
def test_a_file_of_copied_and_encoded_stripes_has_bounds_of_all(values: list[Any], tmp_path: Path) -> None:
    """Those of copied stripes stay their writer's. Those of the file are merged, and hold for either zero; of NaN they say
    nothing, since ORC Java takes absent bounds for those of an empty range."""
    files = [
        File(
            row=COLUMNS,
            values=[(place, value, value, (value,)) for place, value in enumerate(part)],
            by_java={"stripe_rows": 1},
            deleted=deleted,
        )
        for part, deleted in (([*values, 7.0], (len(values),)), ([1.0, 2.0], ()))
    ]
    result = execute(make_unit(tmp_path, files, COLUMNS))
    with LocalSource(result.outputs[0].path) as source:
        tail = read_tail(source)
    assert len(tail.stripes) > 2
    of_double = tail.statistics[ID + 1]
    if NAN in values:
        assert not of_double.HasField("double_statistics")
    else:
        bounds = of_double.double_statistics
        zeros = [repr(bound) for bound in (bounds.minimum, bounds.maximum) if bound == 0]
        assert zeros == (["-0.0"] if values[1] > 0 else [])
