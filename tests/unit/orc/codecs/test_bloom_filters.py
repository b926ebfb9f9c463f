"""Re-encoded stripes have the bloom filters of their source stripe, and these miss no value."""

from __future__ import annotations

import datetime
import math
import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from pyorc.predicates import PredicateColumn

from compactor.orc.codecs import arrow_codec, pyorc_codec
from compactor.orc.codecs.bloom_filters import (
    Ambiguous,
    admit_both_zeros,
    check_hashes,
    common_filters,
    filters_by_name,
    stripe_filters,
)
from compactor.orc.format import messages
from compactor.orc.format.compression import decompress
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, read_indexes, read_stripe_footer
from compactor.orc.format.tail import Filters, FilterStream, Tail, empty_tail, read_tail
from compactor.orc.format.types import Types, acid_types
from compactor.orc.io.source import LocalSource
from compactor.orc.pieces import Piece
from compactor.orc.reencode import reencode
from compactor.rewrite.full_acid.output_format import new_tail
from compactor.settings.output_class import OutputClass

ROW = (
    "struct<i:int,s:string,d:double,v:varchar(20),c:char(9),b:bigint,t:date,e:decimal(9,2),p:timestamp,"
    "h:tinyint,z:boolean>"
)
SCHEMA = f"struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{ROW}>"
STRIDE = 1000


def _row(number: int) -> tuple[Any, ...]:
    day = datetime.date(2020, 1, 1) + datetime.timedelta(days=number)
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    return (
        *(number * 7919 % 1_000_003, f"Wort ä{number * 7919 % 1_000_003}", number / 2, f"v{number * 31}", "c"),
        *(number * 7919 % 1_000_003 << 33, day, Decimal(number).scaleb(-2), moment, number % 100, number % 2 == 0),
    )


def _file(path: Path, rows: int, *, not_a_number: int = -1, **options: Any) -> Path:
    with path.open("wb") as file, pyorc.Writer(file, SCHEMA, row_index_stride=STRIDE, **options) as writer:
        for number in range(rows):
            row = _row(number)
            if number == not_a_number:
                row = (*row[:2], math.nan, *row[3:])
            writer.write((0, 1, 1 << 29, number, 1, row))
    return path


def _filters(source: LocalSource, tail: Tail, stripe: int) -> dict[int, list[bytes]]:
    """Returns each row group's filter, by column."""
    found, place = {}, tail.stripes[stripe].offset
    for stream in read_stripe_footer(source, tail, stripe).streams:
        if stream.kind == BLOOM_UTF8:
            data = decompress(source.read(place, stream.length), tail.compression, tail.compression_block_size, "f")
            index = messages.BloomFilterIndex.FromString(data)
            found[stream.column] = [item.utf8bitset for item in index.bloom_filter]
        assert stream.kind != BLOOM
        place += stream.length
    return found


def _like(pieces: Sequence[Piece], types: Types | None = None) -> Tail:
    """Returns the target of these pieces, of which all are encoded."""
    own = [stripe_filters(piece.source, piece.tail, piece.stripe_index) for piece in pieces]
    return replace(pieces[0].tail, filters=common_filters([], own, types or pieces[0].tail.types))


def test_columns_with_filters_that_can_be_written_again(tmp_path: Path) -> None:
    with LocalSource(_file(tmp_path / "f", 10, bloom_filter_columns=list(range(18)))) as source:
        own = stripe_filters(source, tail := read_tail(source), 0)
        assert common_filters([], [own], tail.types).encoded == set(range(7, 16))  # no key, no tinyint, no boolean
        streams = own[1]
    assert {stream.column for stream in streams} > set(range(7, 18))
    assert common_filters([own], [], tail.types).streams == streams  # all that a copied stripe has
    with LocalSource(_file(tmp_path / "g", 10)) as source:
        none = stripe_filters(source, read_tail(source), 0)
    assert common_filters([], [none], tail.types) == common_filters([none], [none], tail.types) == Filters()
    both = common_filters([none], [own], tail.types)
    assert both.encoded == set(range(7, 15))  # no timestamp, which the other stripe's rows have none of
    assert {stream.column for stream in both.streams} == both.encoded


#: Made by Java's writer (ORC 2.1.2 of Hive 4.1 and 2.3 of Spark) for the columns of ``_hashed``: the checksum of all
#: filters of a column.
JAVAS = dict(
    enumerate(
        (
            *(1396280917, 1048263039, 4232449833, 1084863755, 2932769759, 1245678950, 809946471, 3596192864),
            *(2699254103, 257854664, 257854664, 1566910461, 1652440788, 3646893241),
        ),
        start=1,
    )
)
JAVAS_OF_FRACTIONS = 2996530859
HASHED = parse_hive_type(
    "struct<i:int,s:string,b:bigint,t:date,h:smallint,c:char(9),v:varchar(20),e:decimal(9,2),f:decimal(38,10),p:timestamp,"
    "q:timestamp with local time zone,d:double,g:float,y:binary>"
)


def _hashed() -> pa.RecordBatch:
    numbers = np.arange(25_000)
    seconds = (numbers - 12_000) * 86_400 + 36_000 + numbers % 3000
    nanos = seconds * 10**9 + np.where(numbers < 12_002, 0, numbers % 7 * 123_456_789)
    factor = 123_456_789_012_345_678_901
    return pa.record_batch(
        [
            (numbers * 7919).astype(np.int32),
            pa.array([f"Wört {number} 漢" for number in numbers]),
            (numbers - 12_000) * 123_456_789_012,
            pa.array((numbers - 7305).astype(np.int32)).cast(pa.date32()),
            (numbers - 12_000).astype(np.int16),
            pa.array([f"c{number % 5000}ä".ljust(9) for number in numbers]),
            pa.array([f"v{number * 31}漢" for number in numbers]),
            pa.array([Decimal((number - 12_000) * 7).scaleb(-2) for number in numbers.tolist()], pa.decimal128(9, 2)),
            pa.array(
                [
                    Decimal((number - 12_000) * factor * 10 ** (number % 5)).scaleb(-10, Context(prec=38))
                    for number in numbers.tolist()
                ],
                pa.decimal128(38, 10),
            ),
            pa.array(nanos, pa.timestamp("ns")),
            pa.array(nanos, pa.timestamp("ns", "UTC")),
            (numbers - 12_000) / 3.0,
            ((numbers - 12_000) / 7.0).astype(np.float32),
            pa.array([bytes((number & 255, number >> 8 & 255, 0, 200)) for number in numbers.tolist()]),
        ],
        schema=arrow_codec.schema(HASHED),
    )


def _checksums(path: Path) -> dict[int, int]:
    with LocalSource(path) as source:
        tail = read_tail(source)
        filters = _filters(source, tail, 0)
        encodings = read_stripe_footer(source, tail, 0).columns
    # otherwise Java's reader would not use those of timestamps
    assert all(encodings[column].bloom_encoding == 1 for column in filters)
    return {column: zlib.crc32(b"".join(parts)) for column, parts in filters.items()}


@pytest.mark.parametrize("held", [0, arrow_codec.BUFFERED_BYTES], ids=["large", "small"])
def test_filters_are_those_of_java_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    """With another hash, Java's reader would skip row groups with matching rows."""
    monkeypatch.setattr(arrow_codec, "BUFFERED_BYTES", held)
    with arrow_codec.writer(tmp_path / "f", like=empty_tail(HASHED), types=HASHED, filtered=list(JAVAS)) as writer:
        writer.write(_hashed())
    assert _checksums(tmp_path / "f") == JAVAS


def test_filters_of_fractions_before_1970_are_those_of_java(tmp_path: Path) -> None:
    """These files are written by the other library."""
    numbers = np.arange(25_000)
    seconds = (numbers - 12_000) * 86_400 + 36_000 + numbers % 3000
    fractions = (numbers % 7 * 123_456_789).astype(np.int32)
    types = parse_hive_type("struct<x:timestamp>")
    kind = pyorc_codec.schema(types).field("x").type
    batch = pa.record_batch([pa.StructArray.from_arrays([seconds, fractions], fields=list(kind))], names=["x"])
    with pyorc_codec.writer(tmp_path / "f", like=empty_tail(types), types=types, filtered=[1]) as writer:
        writer.write(batch)
    assert _checksums(tmp_path / "f") == {1: JAVAS_OF_FRACTIONS}


DOUBTFUL = parse_hive_type("struct<d:double,g:float,c:char(3),r:struct<l:array<double>,m:map<char(2),int>>,n:double>")
PLAIN = {"d": 0.0, "g": 1.5, "c": "ä  ", "r": {"l": [0.0, None], "m": [("xy", 1)]}, "n": None}


@pytest.mark.parametrize(
    ("found", "columns"),
    [
        ({}, set()),
        ({"d": None, "g": None, "c": None, "r": None}, set()),
        ({"d": -0.0}, set()),
        ({"d": float("nan"), "g": -0.0}, {1}),
        ({"g": float("nan"), "n": float("inf")}, {2}),
        ({"c": "ab"}, {3}),
        ({"c": "äöü"}, set()),
        ({"r": {"l": [1.0, float("nan")], "m": []}}, {6}),
        ({"r": {"l": None, "m": [("xy", 1), ("x", 2)]}}, {8}),
    ],
)
def test_values_that_equal_others_with_a_different_hash(found: dict[str, Any], columns: set[int]) -> None:
    """Java's filters distinguish NaNs and the char texts 'ab' and 'ab ', which are equal."""
    batch = pa.RecordBatch.from_pylist([PLAIN, PLAIN | found, PLAIN], arrow_codec.schema(DOUBTFUL))
    asked = frozenset(range(1, 11))
    if not columns:
        check_hashes(batch, DOUBTFUL, asked)
    else:
        with pytest.raises(Ambiguous) as raised:
            check_hashes(batch.slice(1), DOUBTFUL, asked)
        assert raised.value.columns == columns
    check_hashes(batch, DOUBTFUL, asked - columns)


def test_a_char_that_is_no_utf_8_is_counted_as_java_counts() -> None:
    types = parse_hive_type("struct<c:char(3)>")
    for text, fits in ((b"\xff\xfe ", True), (b"a\x80 ", False)):
        batch = pa.record_batch([pa.array([text], pa.binary()).view(pa.string())], schema=arrow_codec.schema(types))
        with nullcontext() if fits else pytest.raises(Ambiguous):
            check_hashes(batch, types, {1})


@pytest.mark.parametrize("values", [[0.0, 1.5], [-0.0, 1.5], [1.5, 2.5]], ids=str)
def test_a_filter_of_one_zero_has_both(values: list[float], tmp_path: Path) -> None:
    """PROTOCOL 2.7: a filter of the library itself, which hashes bits as Java does."""
    filters = []
    for content in (values, [*values, 0.0, -0.0] if 0.0 in values else values):
        po.write_table(pa.table({"d": content}), tmp_path / "f", bloom_filter_columns=[1], bloom_filter_fpp=0.01)
        with LocalSource(tmp_path / "f") as source:
            tail = read_tail(source)
            footer = read_stripe_footer(source, tail, 0)
            [(_, _, index)] = [found for found in read_indexes(source, tail, 0, footer, {1}) if found[0] == BLOOM_UTF8]
        filters.append(index.bloom_filter[0])
    own, of_both = filters
    assert admit_both_zeros(own) == (0.0 in values)
    assert own == of_both
    assert not admit_both_zeros(own)


@pytest.mark.parametrize("held", [0, arrow_codec.BUFFERED_BYTES], ids=["large", "small"])
def test_ambiguous_values_cost_only_their_column_its_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(arrow_codec, "BUFFERED_BYTES", held)
    path = _file(tmp_path / "f", 3000, not_a_number=2500, bloom_filter_columns=[7, 9, 11])
    with LocalSource(path) as source:
        tail = read_tail(source)
        pieces = [Piece(source=source, tail=tail, stripe_index=0)]
        made = reencode(pieces, tmp_path / "re", like=_like(pieces), types=tail.types)
    with LocalSource(tmp_path / "re") as source:
        assert set(_filters(source, made, 0)) == {7, 11}


@pytest.mark.parametrize(
    ("compression", "held"),
    [
        (pyorc.CompressionKind.ZLIB, 0),
        (pyorc.CompressionKind.ZLIB, arrow_codec.BUFFERED_BYTES),
        (pyorc.CompressionKind.ZSTD, 0),
    ],
    ids=["large", "small", "another codec"],
)
def test_a_stripe_keeps_its_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: Any, held: int
) -> None:
    """The filters find every kept value in its row group, and exclude most others."""
    rows = 8000
    monkeypatch.setattr(arrow_codec, "BUFFERED_BYTES", held)
    path = _file(tmp_path / "f", rows, bloom_filter_columns=[7, 8, 12], compression=compression)
    keep = np.arange(rows) % 11 != 0
    with LocalSource(path) as source:
        tail = read_tail(source)
        assert len(tail.stripes) == 1
        pieces = [Piece(source=source, tail=tail, stripe_index=0, keep=keep)]
        made = reencode(pieces, tmp_path / "re", like=_like(pieces), types=tail.types)
    with LocalSource(tmp_path / "re") as source:
        for stripe in range(len(made.stripes)):
            filters = _filters(source, made, stripe)
            assert set(filters) == {7, 8, 12}
            assert all(len(groups) == -(-made.stripes[stripe].rows // STRIDE) for groups in filters.values())
    with (tmp_path / "re").open("rb") as file:
        for number in [n for n in range(rows) if keep[n]][STRIDE // 2 :: STRIDE]:
            for place, name, kind in ((0, "i", pyorc.TypeKind.INT), (1, "s", pyorc.TypeKind.STRING)):
                predicate = PredicateColumn(kind, index=7 + place) == _row(number)[place]
                found = list(pyorc.Reader(file, predicate=predicate))
                assert [row[3] for row in found if row[5][place] == _row(number)[place]] == [number], name
                assert len(found) <= 3 * STRIDE


def test_filters_of_files_with_other_types_stay_with_their_columns(tmp_path: Path) -> None:
    """The columns of such a file have other numbers."""
    newer = acid_types(parse_hive_type("struct<n:struct<x:int,y:int>,m:int>"))
    wide = acid_types(parse_hive_type(ROW.replace("z:boolean", "z:boolean,q:int").replace("i:int", "i:bigint")))
    with LocalSource(_file(tmp_path / "f", 3000, bloom_filter_columns=[7, 8])) as source:
        tail = read_tail(source)
        pieces = [Piece(source=source, tail=tail, stripe_index=0)]
        made = reencode(pieces, tmp_path / "re", like=_like(pieces, wide), types=wide)
    with LocalSource(tmp_path / "re") as source:
        assert set(_filters(source, made, 0)) == {7, 8}
    raw = parse_hive_type("struct<n:struct<x:int>,m:int>")
    own = (raw, frozenset({FilterStream(2, BLOOM, 1), FilterStream(3, BLOOM_UTF8, 1)}))
    assert common_filters([], [own], newer).encoded == {8, 10}


@pytest.mark.parametrize(("second", "kept"), [([7, 15], {7, 15}), ([7], {7}), ([], {7})])
def test_rows_without_filters_of_timestamps_never_get_any(tmp_path: Path, second: list[int], kept: set[int]) -> None:
    """Trino may look up microseconds in them: it would miss rows that it found before."""
    with (
        LocalSource(_file(tmp_path / "f", 3000, bloom_filter_columns=[7, 15])) as long,
        LocalSource(_file(tmp_path / "g", 1500, bloom_filter_columns=second)) as short,
    ):
        pieces = [Piece(source=source, tail=read_tail(source), stripe_index=0) for source in (long, short)]
        made = reencode(pieces, tmp_path / "re", like=_like(pieces), types=pieces[0].tail.types)
    with LocalSource(tmp_path / "re") as source:
        assert set(_filters(source, made, 0)) == kept


@pytest.mark.parametrize(
    ("names", "columns"),
    [(["*"], {7, 8, 9, 10, 11, 12, 13, 14}), (["i", "s"], {7, 8}), (["h", "z", "p", "nothing"], set())],
    ids=["all", "two", "none that may have one"],
)
def test_columns_that_are_asked_for(names: list[str], columns: set[int]) -> None:
    """No timestamp, which Trino looks up wrongly."""
    assert filters_by_name(acid_types(parse_hive_type(ROW)), names).encoded == columns
    assert filters_by_name(parse_hive_type(ROW), names).encoded == {column - 6 for column in columns}


def test_what_a_column_holds_is_filtered_with_it() -> None:
    assert filters_by_name(parse_hive_type("struct<a:int,L:array<struct<x:bigint,y:boolean>>>"), ["l"]).encoded == {4}


@pytest.mark.parametrize("share", [None, 0.001])
def test_filters_that_are_asked_for(tmp_path: Path, share: float | None) -> None:
    """They replace those of the files that are read, whatever the number of row groups."""
    asked = OutputClass(bloom_filters=("s",), false_positives=share)
    with LocalSource(_file(tmp_path / "f", 900, bloom_filter_columns=[7])) as source:
        tail = read_tail(source)
        like = new_tail(empty_tail(tail.types, row_index_stride=STRIDE), tail.types, asked)
        reencode([Piece(source=source, tail=tail, stripe_index=0)], tmp_path / "out", like=like, types=tail.types)
    with LocalSource(tmp_path / "out") as source:
        found = _filters(source, read_tail(source), 0)
    assert {column: [len(bits) for bits in filters] for column, filters in found.items()} == {
        8: [1_800 if share else 784]
    }
