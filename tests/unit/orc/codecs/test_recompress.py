"""Files that are encoded plain and compressed afterwards equal those that the ORC C++ library compresses itself."""

from __future__ import annotations

import datetime
import decimal
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from pyorc.predicates import PredicateColumn

from compactor.base.errors import NotLossless
from compactor.orc.codecs import recompress
from compactor.orc.format import messages
from compactor.orc.format.compression import decompress
from compactor.orc.format.run_length_encoding import IntegerColumn
from compactor.orc.format.stripe_footer import ROW_INDEX, read_stripe_footer
from compactor.orc.format.tail import read_tail
from compactor.orc.format.types import TypeKind
from compactor.orc.io.source import LocalSource

ROWS, STRIDE, BLOCK = 24_000, 1000, 64 * 1024
TYPES = {
    "i": pa.int64(),
    "k": pa.int32(),
    "h": pa.int16(),
    "y": pa.int8(),
    "o": pa.bool_(),
    "f": pa.float32(),
    "d": pa.float64(),
    "s": pa.string(),
    "w": pa.string(),
    "x": pa.binary(),
    "e": pa.decimal128(12, 2),
    "g": pa.decimal128(30, 4),
    "t": pa.timestamp("ns"),
    "a": pa.date32(),
    "l": pa.list_(pa.string()),
    "m": pa.map_(pa.string(), pa.int64()),
    "r": pa.struct([("p", pa.int64()), ("q", pa.list_(pa.float64()))]),
    "n": pa.int64(),
}


def _value(name: str, row: int, dice: random.Random) -> Any:
    text = "".join(dice.choices("abcdefgh", k=dice.randrange(12)))
    match name:
        case "i":
            return row * 7
        case "k" | "h" | "y":
            return dice.randrange(-100, 100)
        case "o":
            return dice.random() < 0.5
        case "f" | "d":
            return float(dice.randrange(1 << 20)) / 8
        case "s":
            return f"{row:09d}{text}"
        case "w":
            return f"word {row % 50}"
        case "x":
            return dice.randbytes(dice.randrange(10))
        case "e" | "g":
            return decimal.Decimal(dice.randrange(-(10**9), 10**9)).scaleb(-2)
        case "t":
            return datetime.datetime(2001, 1, 1) + datetime.timedelta(microseconds=dice.randrange(10**15))
        case "a":
            return datetime.date(2001, 1, 1) + datetime.timedelta(days=dice.randrange(9999))
        case "l":
            return [text, None] * dice.randrange(3)
        case "m":
            return [(text, row)] * dice.randrange(2)
        case "r":
            return {"p": row, "q": [1.5, None][: dice.randrange(3)]}
    return None


@pytest.fixture(scope="module", params=[0.0, 0.2], ids=["no nulls", "nulls"])
def table(request: pytest.FixtureRequest) -> pa.Table:
    dice = random.Random(1)
    columns = {}
    for name, kind in TYPES.items():
        few = [None if dice.random() < request.param else _value(name, row, dice) for row in range(3000)]
        columns[name] = pa.array(few * (ROWS // 3000), kind)
    columns["i"] = pa.array(range(ROWS), pa.int64())
    columns["s"] = pa.array([f"{row:09d}" for row in range(ROWS)])
    return pa.table(columns)


def _recompress(plain: Path, path: Path, times: int = 1) -> None:
    recompressor = recompress.Recompressor(path, block_size=BLOCK)
    with LocalSource(plain) as source:
        for _ in range(times):
            recompressor.append(source)
    recompressor.close()


@pytest.fixture(scope="module")
def files(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Returns the same stripes plain, compressed by the library, and compressed here."""
    folder = tmp_path_factory.mktemp("recompress")
    found = {name: folder / name for name in ("plain", "library", "ours")}
    for name, codec in (("plain", "uncompressed"), ("library", "zlib")):
        with po.ORCWriter(
            found[name],
            compression=codec,
            compression_block_size=BLOCK,
            row_index_stride=STRIDE,
            stripe_size=1 << 30,
            dictionary_key_size_threshold=0.5,
        ) as writer:
            writer.write(table)
    _recompress(found["plain"], found["ours"])
    return found


def test_rows_are_the_same_to_two_readers(table: pa.Table, files: dict[str, Path]) -> None:
    assert po.ORCFile(files["ours"]).read().equals(po.ORCFile(files["plain"]).read())
    with files["ours"].open("rb") as ours, files["plain"].open("rb") as plain:
        assert all(a == b for a, b in zip(pyorc.Reader(ours), pyorc.Reader(plain), strict=True))
    assert files["ours"].stat().st_size < 1.1 * files["library"].stat().st_size


def _indexes(path: Path) -> Iterator[tuple[tuple[int, int, int], list[int], dict[int, set[tuple[int, int]]]]]:
    """Returns every position by stripe, column and row group, with chunk numbers in place of offsets."""
    with LocalSource(path) as source:
        tail = read_tail(source)
        for number, stripe in enumerate(tail.stripes):
            streams, at = {}, stripe.offset
            for stream in read_stripe_footer(source, tail, number).streams:
                streams[stream.column, stream.kind] = source.read(at, stream.length)
                at += stream.length
            for column in range(len(tail.types)):
                begins: dict[int, set[tuple[int, int]]] = {}
                for (of, kind), data in streams.items():
                    for ordinal, start in enumerate(_starts(data) if of == column and kind != ROW_INDEX else ()):
                        begins.setdefault(start, set()).add((kind, ordinal))
                plain = decompress(streams[column, ROW_INDEX], tail.compression, tail.compression_block_size, "index")
                for group, entry in enumerate(messages.RowIndex.FromString(plain).entry):
                    yield (number, column, group), list(entry.positions), begins


def _starts(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        yield at
        at += 3 + (int.from_bytes(data[at : at + 3], "little") >> 1)
    yield at


def test_positions_are_those_that_the_library_writes(files: dict[str, Path]) -> None:
    """They refer to the same chunks, at other offsets, and to the same places in them."""
    ours, library = list(_indexes(files["ours"])), list(_indexes(files["library"]))
    assert [where for where, _, _ in ours] == [where for where, _, _ in library]
    assert len(ours) > 20 * ROWS // STRIDE
    moved = 0
    for (where, mine, my_begins), (_, wanted, begins) in zip(ours, library, strict=True):
        assert len(mine) == len(wanted), where
        for a, b in zip(mine, wanted, strict=True):
            assert a == b or my_begins[a] & begins[b], (where, mine, wanted)
            moved += a != b
    assert moved > ROWS // STRIDE


@pytest.mark.parametrize("name", ["i", "s"])
def test_a_predicate_finds_its_row_in_every_row_group(table: pa.Table, files: dict[str, Path], name: str) -> None:
    kind = pyorc.TypeKind.LONG if name == "i" else pyorc.TypeKind.STRING
    values = table.column(name)
    for row in range(STRIDE // 2, ROWS, 5 * STRIDE):
        value = values[row].as_py()
        with files["ours"].open("rb") as ours:
            found = list(pyorc.Reader(ours, predicate=PredicateColumn(kind, name=name) == value))
        assert len(found) <= STRIDE
        [whole] = [r for r in found if r[table.column_names.index(name)] == value]
        with files["plain"].open("rb") as plain:
            reader = pyorc.Reader(plain)
            reader.seek(row)
            assert whole == next(reader)


def test_a_position_of_another_shape_is_refused(files: dict[str, Path], tmp_path: Path, monkeypatch: Any) -> None:
    """A row index that would mislead readers is never written."""
    monkeypatch.setattr(recompress, "_STREAMS", {**recompress._STREAMS, TypeKind.DOUBLE: ((1, 1),)})
    recompressor = recompress.Recompressor(tmp_path / "out", block_size=BLOCK)
    with LocalSource(files["plain"]) as source, pytest.raises(NotLossless, match="DOUBLE"):
        recompressor.append(source)
    recompressor.abort()
    assert not (tmp_path / "out").exists()


def test_columns_of_other_rows_are_refused(files: dict[str, Path], tmp_path: Path) -> None:
    column = IntegerColumn("a", TypeKind.LONG, STRIDE)
    column.append(np.arange(ROWS - 1))
    recompressor = recompress.Recompressor(tmp_path / "out", block_size=BLOCK)
    with LocalSource(files["plain"]) as source, pytest.raises(NotLossless, match=f"expected one of \\[{ROWS - 1}\\]"):
        recompressor.append(source, [column.finish()])
    recompressor.abort()


def test_files_one_after_another(table: pa.Table, files: dict[str, Path], tmp_path: Path) -> None:
    _recompress(files["plain"], tmp_path / "out", times=2)
    file = po.ORCFile(tmp_path / "out")
    assert file.read().equals(pa.concat_tables([table, table]))
    with LocalSource(tmp_path / "out") as source, LocalSource(files["ours"]) as once:
        whole, half = read_tail(source), read_tail(once)
    assert (whole.rows, len(whole.stripes)) == (2 * ROWS, 2 * len(half.stripes))
    assert whole.statistics[1].int_statistics.sum == 2 * half.statistics[1].int_statistics.sum


def test_a_file_without_rows(tmp_path: Path) -> None:
    po.write_table(pa.table({"a": pa.array([], pa.int64())}), str(tmp_path / "plain"), compression="uncompressed")
    _recompress(tmp_path / "plain", tmp_path / "out")
    file = po.ORCFile(tmp_path / "out")
    assert (file.nrows, file.compression) == (0, "ZLIB")


@pytest.mark.parametrize("quick", [True, False])
def test_a_stream_is_compressed_quickly_where_that_takes_no_more_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: bool
) -> None:
    """Digits compress equally well at either level; only the slow one finds repetitions after 24 kB."""
    dice = random.Random(2)
    count = 20 * BLOCK // 8
    numbers = [dice.random() for _ in range(count if quick else 3000)]
    table = pa.table({"d": (numbers * (count // len(numbers) + 1))[:count]})
    with po.ORCWriter(tmp_path / "plain", compression="uncompressed", compression_block_size=BLOCK) as writer:
        writer.write(table)
    levels: list[int] = []
    chunks = recompress.chunks

    def noted(data: bytes, *args: Any, **options: Any) -> list[bytes]:
        if len(data) == BLOCK:
            levels.append(options.get("level", recompress.SMALL))
        return chunks(data, *args, **options)

    monkeypatch.setattr(recompress, "chunks", noted)
    _recompress(tmp_path / "plain", tmp_path / "ours")
    assert po.ORCFile(tmp_path / "ours").read().equals(table)
    tried = 2  # of 20 chunks, each of which is compressed at every level
    assert (levels.count(1 if quick else recompress.SMALL), len(levels)) == (20 + tried, 20 + 3 * tried)
