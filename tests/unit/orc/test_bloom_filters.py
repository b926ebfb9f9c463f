"""Re-encoded stripes have the bloom filters of the stripe they were made of, and these miss no value."""

from __future__ import annotations

import datetime
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyorc
import pytest
from pyorc.predicates import PredicateColumn

from compactor.orc import arrow_codec, messages
from compactor.orc.bloom_filters import filtered_columns
from compactor.orc.compression import decompress
from compactor.orc.reencode import Piece, reencode
from compactor.orc.source import LocalSource
from compactor.orc.stripe_footer import BLOOM, BLOOM_UTF8, read_stripe_footer
from compactor.orc.tail import Tail, empty_tail, read_tail
from compactor.orc.types import acid_types, parse_hive_type

ROW = "struct<i:int,s:string,d:double,v:varchar(20),c:char(9),b:bigint,t:date,e:decimal(9,2),p:timestamp>"
SCHEMA = f"struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{ROW}>"
STRIDE = 1000


def _row(number: int) -> tuple[Any, ...]:
    day = datetime.date(2020, 1, 1) + datetime.timedelta(days=number)
    moment = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    return (
        *(number * 7919 % 1_000_003, f"Wort ä{number * 7919 % 1_000_003}", number / 2, f"v{number * 31}", "c"),
        *(number * 7919 % 1_000_003 << 33, day, Decimal(number).scaleb(-2), moment),
    )


def _file(path: Path, rows: int, **options: Any) -> Path:
    with path.open("wb") as file, pyorc.Writer(file, SCHEMA, row_index_stride=STRIDE, **options) as writer:
        for number in range(rows):
            writer.write((0, 1, 1 << 29, number, 1, _row(number)))
    return path


def _filters(source: LocalSource, tail: Tail, stripe: int) -> dict[int, list[bytes]]:
    """Each row group's filter, by column."""
    found, place = {}, tail.stripes[stripe].offset
    for stream in read_stripe_footer(source, tail, stripe).streams:
        if stream.kind == BLOOM_UTF8:
            data = decompress(source.read(place, stream.length), tail.compression, tail.compression_block_size, "f")
            index = messages.BloomFilterIndex.FromString(data)
            found[stream.column] = [item.utf8bitset for item in index.bloom_filter]
        assert stream.kind != BLOOM
        place += stream.length
    return found


def test_columns_whose_filters_can_be_made_again(tmp_path: Path) -> None:
    with LocalSource(_file(tmp_path / "f", 10, bloom_filter_columns=list(range(7, 16)))) as source:
        assert filtered_columns(source, read_tail(source), 0) == {7, 8, 10, 12, 13}
    with LocalSource(_file(tmp_path / "g", 10)) as source:
        assert filtered_columns(source, read_tail(source), 0) == set()


#: What Java's writer (ORC 2.1 in Spark) made of the columns of ``_hashed``: the checksum of all filters of a column.
JAVAS = {1: 1396280917, 2: 1048263039, 3: 4232449833, 4: 1084863755, 5: 2932769759}


def _hashed() -> pa.RecordBatch:
    numbers = np.arange(25_000)
    return pa.record_batch(
        {
            "i": (numbers * 7919).astype(np.int32),
            "s": [f"Wört {number} 漢" for number in numbers],
            "b": (numbers - 12_000) * 123_456_789_012,
            "t": pa.array((numbers - 7305).astype(np.int32)).cast(pa.date32()),
            "h": (numbers - 12_000).astype(np.int16),
        }
    )


@pytest.mark.parametrize("held", [0, arrow_codec.HELD], ids=["large", "small"])
def test_filters_are_those_of_java_to_the_last_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    """Another hash would make Java's reader skip row groups whose rows are asked for."""
    monkeypatch.setattr(arrow_codec, "HELD", held)
    types = parse_hive_type("struct<i:int,s:string,b:bigint,t:date,h:smallint>")
    with arrow_codec.writer(tmp_path / "f", like=empty_tail(types), types=types, filtered=list(JAVAS)) as writer:
        writer.write(_hashed())
    with LocalSource(tmp_path / "f") as source:
        filters = _filters(source, read_tail(source), 0)
    assert {column: zlib.crc32(b"".join(parts)) for column, parts in filters.items()} == JAVAS


@pytest.mark.parametrize(
    ("compression", "held"),
    [(pyorc.CompressionKind.ZLIB, 0), (pyorc.CompressionKind.ZLIB, arrow_codec.HELD), (pyorc.CompressionKind.ZSTD, 0)],
    ids=["large", "small", "another codec"],
)
def test_a_stripe_keeps_its_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: Any, held: int
) -> None:
    """Every kept value is found by them in its row group, most others are known not to be there."""
    rows = 8000
    monkeypatch.setattr(arrow_codec, "HELD", held)
    path = _file(tmp_path / "f", rows, bloom_filter_columns=[7, 8, 12], compression=compression)
    keep = np.arange(rows) % 11 != 0
    with LocalSource(path) as source:
        tail = read_tail(source)
        assert len(tail.stripes) == 1
        pieces = [Piece(source=source, tail=tail, stripe_index=0, keep=keep)]
        made = reencode(pieces, tmp_path / "re", like=tail, types=tail.types)
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


def test_filters_of_a_file_of_other_types_are_not_looked_for(tmp_path: Path) -> None:
    """Its columns have other numbers."""
    types = acid_types(parse_hive_type(ROW.replace("timestamp", "timestamp,q:int")))
    with LocalSource(_file(tmp_path / "f", 3000, bloom_filter_columns=[7])) as source:
        tail = read_tail(source)
        made = reencode([Piece(source=source, tail=tail, stripe_index=0)], tmp_path / "re", like=tail, types=types)
    with LocalSource(tmp_path / "re") as source:
        assert _filters(source, made, 0) == {}
