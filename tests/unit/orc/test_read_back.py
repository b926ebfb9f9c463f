"""Encoders that write something wrong are caught before anything is named, by the column that it is in (PROTOCOL 4)."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from compactor.base.errors import VerificationFailed
from compactor.orc import read_back, reencode
from compactor.orc.codecs import arrow_codec, arrow_encoder, pyorc_codec
from compactor.orc.codecs.codec import relabel_batch
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import empty_tail
from compactor.orc.format.types import acid_types
from compactor.orc.read_back import ValueDigest
from compactor.orc.reencode import encode_acid

ROW = {
    "b": (True, False),
    "t": (1, 2),
    "i": (-5, 6),
    "l": (1 << 40, 0),
    "f": (0.5, -0.0),
    "d": (0.0, -0.0),
    "w": ("", "a"),
    "x": (b"\x00", b"\x00\x00"),
    "m": (Decimal("1.50"), Decimal("-1.50")),
    "y": (datetime.date(1500, 1, 1), datetime.date(1500, 1, 2)),
    "z": (1, 2),
    "a": ([1, None], [1]),
    "k": ([("x", 1), ("x", 2)], [("x", 2), ("x", 1)]),
    "s": ({"p": None, "q": ["u"]}, {"p": None, "q": None}),
}
TYPES = parse_hive_type(
    "struct<b:boolean,t:tinyint,i:int,l:bigint,f:float,d:double,w:string,x:binary,m:decimal(10,2),y:date,z:timestamp,"
    "a:array<int>,k:map<string,int>,s:struct<p:int,q:array<varchar(3)>>>"
)
SCHEMA = arrow_codec.schema(TYPES)
ROWS = 50


def _batch(rows: int = ROWS, **changed: Any) -> pa.RecordBatch:
    """Returns rows of which the one before the last has the values ``changed``, and some are NULL."""
    plain = {name: values[0] for name, values in ROW.items()}
    found = [plain if number % 7 else dict.fromkeys(ROW) for number in range(rows)]
    found[-2] = plain | changed
    return pa.RecordBatch.from_pylist(found, SCHEMA)


def _digest(*batches: pa.RecordBatch) -> ValueDigest:
    digest = ValueDigest(TYPES)
    for batch in batches:
        digest.add(batch)
    return digest


@pytest.mark.parametrize("name", ROW)
def test_a_changed_value_changes_the_sums_of_its_column(name: str) -> None:
    column = TYPES[0].children[list(ROW).index(name)]
    for value in (ROW[name][1], None):
        changed: dict[str, Any] = {name: value}
        differing = _digest(_batch()).differing_columns(_digest(_batch(**changed)))
        assert differing
        assert column <= differing[0] < [*TYPES[0].children, len(TYPES)][list(ROW).index(name) + 1]


def test_sums_depend_on_values_alone() -> None:
    """Not on batches, on what lies under a NULL, or on the bits of a NaN."""
    whole = _batch(nan=None)
    parts = [whole.slice(start, 13) for start in range(0, ROWS, 13)]
    assert _digest(whole).differing_columns(_digest(*parts)) == []
    types = parse_hive_type("struct<d:double,s:struct<p:int>>")
    nans = np.array([math.nan, 0], np.float64)
    nans.view(np.uint64)[0] |= 1
    hidden = pa.StructArray.from_arrays([pa.array([1, 2], pa.int32())], ["p"], mask=pa.array([False, True]))
    digests = [ValueDigest(types) for _ in range(2)]
    digests[0].add(pa.record_batch([pa.array(nans), hidden], names=["d", "s"]))
    plain = pa.array([{"p": 1}, None], hidden.type)
    digests[1].add(pa.record_batch([pa.array([math.nan, 0.0]), plain], names=["d", "s"]))
    assert digests[0].differing_columns(digests[1]) == []


def test_values_below_a_null_do_not_count() -> None:
    """An encoder gets arrays with values there, a decoder returns others."""
    rows = [{name: values[number % 2] for name, values in ROW.items()} for number in range(ROWS)]
    absent = [number % 3 == 0 for number in range(ROWS)]
    columns = pa.RecordBatch.from_pylist(rows, SCHEMA).columns
    hidden = pa.StructArray.from_arrays(columns, fields=list(SCHEMA), mask=pa.array(absent)).flatten()
    plain = [{} if is_null else row for row, is_null in zip(rows, absent, strict=True)]
    digests = [_digest(pa.record_batch(hidden, SCHEMA)), _digest(pa.RecordBatch.from_pylist(plain, SCHEMA))]
    assert digests[0].differing_columns(digests[1]) == []


def test_times_of_both_codecs_have_the_same_sums() -> None:
    """At the edges of 64 bits of nanoseconds; times beyond them differ from those that they would wrap to."""
    types, least, most = parse_hive_type("struct<z:timestamp>"), -(2**63), 2**63 - 1

    def digest(codec: Any, values: list[Any]) -> ValueDigest:
        digest = ValueDigest(types)
        digest.add(pa.record_batch([pa.array(values, codec.schema(types).types[0])], codec.schema(types)))
        return digest

    def pairs(*times: int | None) -> list[Any]:
        return [
            None if time is None else dict(zip(("seconds", "nanos"), divmod(time, 10**9), strict=True))
            for time in times
        ]

    times = [least, None, -1, 0, 1, most]
    by_arrow, by_pyorc = digest(arrow_codec, times), digest(pyorc_codec, pairs(*times))
    assert by_arrow.differing_columns(by_pyorc) == []
    wrapped = digest(pyorc_codec, pairs(least + 2**64, *times[1:]))
    assert by_arrow.differing_columns(wrapped) == [1]


@pytest.mark.parametrize("rows", [ROWS, 3000])
@pytest.mark.parametrize("compression", [Compression.ZLIB, Compression.SNAPPY])
def test_what_is_written_right_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, compression: Compression
) -> None:
    monkeypatch.setattr(arrow_codec, "BUFFERED_BYTES", 0)
    monkeypatch.setattr(read_back, "SMALL_FILE", 0)
    batch = _batch(rows)
    encode_acid([batch, batch], tmp_path / "out", like=empty_tail(TYPES, compression=compression), types=TYPES)


def _swapped(batch: pa.RecordBatch) -> pa.RecordBatch:
    order = np.arange(batch.num_rows)
    order[[20, 21]] = [21, 20]
    return batch.take(pa.array(order))


def _time_moved(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = SCHEMA.get_field_index("z")
    moved = pa.array(np.asarray(batch.column(place).view(pa.int64()).fill_null(0)) + 561 * 10**9, pa.timestamp("ns"))
    kept = pa.compute.if_else(batch.column(place).is_valid(), moved, pa.scalar(None, moved.type))
    return batch.set_column(place, batch.schema.field(place), kept)


@pytest.mark.parametrize(
    ("wrong", "columns"),
    [
        (lambda batch: batch.slice(0, batch.num_rows - 1), "50 rows|49 rows"),
        (lambda batch: pa.concat_batches([batch, batch.slice(0, 1)]), "51 rows"),
        (_swapped, r"columns 1 \(boolean\)"),
        (_time_moved, r"columns 11 \(timestamp\)"),
        (lambda batch: relabel_batch(_batch(s={"p": 1, "q": ["u"]}), batch.schema), r"columns 18 \(int\) differ"),
    ],
    ids=["a row lost", "a row twice", "rows in another order", "times moved", "a value in a struct"],
)
@pytest.mark.parametrize("held", [0, arrow_codec.BUFFERED_BYTES], ids=["large", "small"])
def test_a_wrong_encoder_is_caught(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    held: int,
    wrong: Callable[[pa.RecordBatch], pa.RecordBatch],
    columns: str,
) -> None:
    """PROTOCOL 4: it fails by name, and nothing of the file remains."""
    monkeypatch.setattr(arrow_codec, "BUFFERED_BYTES", held)
    for encoder in (arrow_encoder.Encoder, arrow_encoder.ZlibEncoder):
        monkeypatch.setattr(encoder, "write", lambda self, batch, was=encoder.write: was(self, wrong(batch)))
    with pytest.raises(VerificationFailed, match=rf"out: read back, its .*({columns})"):
        encode_acid([_batch()], tmp_path / "out", like=empty_tail(TYPES), types=TYPES)
    assert list(tmp_path.iterdir()) == []


def test_the_row_writer_is_judged_by_the_other_decoder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types = parse_hive_type("struct<z:timestamp,w:string>")
    batch = pa.RecordBatch.from_pylist(
        [{"z": {"seconds": -2, "nanos": 5}, "w": "a"}, {"z": None, "w": None}], pyorc_codec.schema(types)
    )
    encode_acid([batch], tmp_path / "right", like=empty_tail(types), types=types, codec=pyorc_codec)
    monkeypatch.setattr(pyorc_codec, "_timestamp", lambda seconds, nanos: (seconds + 1, nanos))
    with pytest.raises(VerificationFailed, match=r"columns 1 \(timestamp\) differ"):
        encode_acid([batch], tmp_path / "wrong", like=empty_tail(types), types=types, codec=pyorc_codec)


def test_decoders_that_disagree_are_believed_neither(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow reads what its own library has written, so pyorc reads some rows, too."""
    plain = pyorc_codec.read_rows

    def wrong(*args: Any) -> Any:
        yield from (batch.slice(1) for batch in plain(*args))

    monkeypatch.setattr(read_back, "read_rows", wrong)
    with pytest.raises(VerificationFailed, match="that another decoder reads"):
        encode_acid([_batch(k=[("x", 1)])], tmp_path / "out", like=empty_tail(TYPES), types=TYPES)


def test_another_zone_than_the_rows_have_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    types = acid_types(parse_hive_type("struct<z:timestamp>"))
    batch = pa.RecordBatch.from_pylist(
        [
            dict.fromkeys(arrow_codec.schema(types).names[:5], 1)
            | {"row": {"f0": None, "z": datetime.datetime(2020, 1, 1)}}
        ],
        arrow_codec.schema(types),
    )
    monkeypatch.setattr(reencode, "mend_indexes", lambda path, zone: None)
    with pytest.raises(
        VerificationFailed, match=r"stripe 0: says that its writer's zone is .*'Europe/Paris' was written"
    ):
        encode_acid([batch], tmp_path / "out", like=empty_tail(types), types=types, zone="Europe/Paris")


@pytest.mark.parametrize("codec", [arrow_codec, pyorc_codec], ids=["arrow", "pyorc"])
def test_bounds_are_those_of_the_values_that_are_stored(tmp_path: Path, codec: Any) -> None:
    """Bounds of 0.1 as a double would hide a float; a long text without exact bounds is NULL to ORC 1.5."""
    types, text = parse_hive_type("struct<f:float,w:string>"), "a" * 2000
    batch = pa.RecordBatch.from_pylist([{"f": 0.1, "w": text}], arrow_codec.schema(types))
    tail = encode_acid([batch], tmp_path / "out", like=empty_tail(types), types=types, codec=codec)
    assert tail.stripe_statistics is not None
    [(_, of_float, of_text)] = tail.stripe_statistics
    assert of_float.double_statistics.minimum == of_float.double_statistics.maximum == np.float32(0.1).item()
    assert (of_text.string_statistics.minimum, of_text.string_statistics.maximum) == (text.encode(), text.encode())
