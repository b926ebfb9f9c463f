"""Rows that are decoded and encoded again must be the same rows, bit by bit, with either codec."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from pyorc.converters import ORCConverter

from compactor.base.errors import BadFile, NotLossless, NotSupported
from compactor.orc import reencode as reencode_module
from compactor.orc.assembler import Assembler
from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Codec, Unfit
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import BytesSource, LocalSink, LocalSource
from compactor.orc.last_keys import read_keys
from compactor.orc.pieces import Piece
from compactor.orc.reencode import check_calendar, concatenate_small_batches, encode_acid, reencode
from compactor.orc.stripe_compatibility import encodable_target, is_copyable
from compactor.settings.output_class import OutputClass
from tests.support.orc_files import acid_source, pieces_of


def acid_table(rows: int, texts: list[str]) -> pa.Table:
    """Returns inserts with dense keys and one column of text."""
    ones = np.ones(rows, dtype=np.int64)
    row = pa.StructArray.from_arrays([pa.array(texts)], ["a"])
    keys = [np.zeros(rows, dtype=np.int32), ones, np.full(rows, 1 << 29, dtype=np.int32), np.arange(rows), ones]
    schema = ARROW.schema(acid_types(parse_hive_type("struct<a:string>")))
    return pa.Table.from_arrays([*map(pa.array, keys), row], schema=schema)


Opened = Callable[[Path], tuple[LocalSource, Tail]]
WriteAcid = Callable[..., Path]
RawRows = Callable[[Path], str]


def test_real_rows_come_back_and_can_be_copied(
    real_files: list[Path], tmp_path: Path, opened: Opened, raw_rows: RawRows
) -> None:
    """PROTOCOL 2.2: re-encoded stripes have the target's class; the footer has the wanted types."""
    for number, path in enumerate(real_files):
        source, tail = opened(path)
        if not tail.is_acid:
            continue
        rows, encoded_path, copied_path = raw_rows(path), tmp_path / f"encoded {number}", tmp_path / f"copied {number}"
        like = encodable_target(tail)
        out = reencode(pieces_of(source, tail), encoded_path, like=like, types=tail.types)
        assert raw_rows(encoded_path) == rows, path
        assert (out.types, out.rows) == (tail.types, tail.rows), path
        assert out.stripe_class == like.stripe_class, path
        assert is_copyable(out), path
        with LocalSource(encoded_path) as encoded:
            assembler = Assembler(LocalSink(copied_path), like=like)
            assembler.append_file(encoded, out)
            assert assembler.close({}).rows == tail.rows, path
        assert raw_rows(copied_path) == rows, path


@pytest.mark.parametrize("fixture", ["hive-2.3/f6_types", "hive-3.1/f6_types", "hive-4.1/f6_types"])
def test_pyorc_loses_nothing_of_any_type(fixture: str, tmp_path: Path, opened: Opened, raw_rows: RawRows) -> None:
    """Char and varchar, extreme timestamps, dates before 1582, NaN, nested types."""
    paths = [path for path in sorted((Path("tests/fixtures") / fixture).rglob("bucket_*")) if path.is_file()]
    assert paths
    for number, path in enumerate(paths):
        source, tail = opened(path)
        out = tmp_path / str(number)
        encode_acid(PYORC.read_batches(source, tail), out, like=encodable_target(tail), types=tail.types, codec=PYORC)
        assert raw_rows(out) == raw_rows(path)


def test_rows_that_are_not_kept_are_gone(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 30_000))
    keep = [np.arange(stripe.rows) % 3 != 0 for stripe in tail.stripes]
    pieces = [Piece(source=source, tail=tail, stripe_index=i, keep=mask) for i, mask in enumerate(keep)]
    out = reencode(pieces, tmp_path / "re", like=tail, types=tail.types)
    wanted = po.ORCFile(source.name).read().filter(pa.array(np.concatenate(keep)))
    assert po.ORCFile(str(tmp_path / "re")).read().equals(wanted)
    assert out.rows == wanted.num_rows


def test_a_mask_of_another_length_is_refused(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 100))
    with pytest.raises(NotLossless, match="a mask of 99 rows, it has 100"):
        reencode(pieces_of(source, tail, np.ones(99, bool)), tmp_path / "re", like=tail, types=tail.types)
    assert not (tmp_path / "re").exists()


def test_all_rows_gone_leaves_a_whole_file(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 100))
    out = reencode(pieces_of(source, tail, np.zeros(100, bool)), tmp_path / "re", like=tail, types=tail.types)
    assert (out.rows, out.types) == (0, tail.types)
    assert po.ORCFile(str(tmp_path / "re")).read().num_rows == 0


@pytest.mark.parametrize("stride", [1000, 10_000])
@pytest.mark.parametrize("compression", [c for c in Compression if c not in (Compression.LZO, Compression.BROTLI)])
def test_the_class_of_the_target_is_kept(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened, compression: Compression, stride: int
) -> None:
    source, tail = opened(write_acid(1, 5000))
    like = replace(tail, compression=compression, row_index_stride=stride, calendar=1, compression_block_size=32768)
    for codec in (ARROW, PYORC):
        out = tmp_path / codec.name
        encoded = encode_acid(
            codec.read_batches(source, tail),
            out,
            like=like,
            types=tail.types,
            metadata=lambda *_: {"a": b"b"},
            codec=codec,
        )
        assert encoded.stripe_class == like.stripe_class
        assert (encoded.calendar, dict(encoded.user_metadata)) == (1, {"a": b"b"})
        assert po.ORCFile(str(out)).read().equals(po.ORCFile(source.name).read())


@pytest.mark.parametrize("compression", [Compression.ZLIB, Compression.NONE], ids=lambda one: one.name)
def test_stripes_end_at_the_size_that_is_asked_for(tmp_path: Path, compression: Compression) -> None:
    rows = 60_000
    texts = np.random.default_rng(7).bytes(100 * rows).hex()
    table = acid_table(rows, [texts[200 * row : 200 * row + 200] for row in range(rows)])
    types = acid_types(parse_hive_type("struct<a:string>"))
    like = empty_tail(types, compression=compression, requested_class=OutputClass(stripe_bytes=1 << 20))
    out = encode_acid(table.to_batches(max_chunksize=1024), tmp_path / "re", like=like, types=types)
    assert out.rows == rows
    lengths = [stripe.length for stripe in out.stripes[:-1]]
    assert lengths
    assert 2**17 < min(lengths) <= max(lengths) < 2**21  # the library counts what its buffers could hold, too


def test_a_codec_that_cannot_be_written_is_named(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 10))
    like = replace(tail, compression=Compression.LZO)
    with pytest.raises(NotSupported, match="LZO"):
        reencode(pieces_of(source, tail), tmp_path / "re", like=like, types=tail.types)


class _Raw(ORCConverter):
    @staticmethod
    def from_orc(seconds: int, nanos: int, zone: object) -> tuple[int, int]:
        return seconds, nanos

    @staticmethod
    def to_orc(value: tuple[int, int], zone: object) -> tuple[int, int]:
        return value


_TIMES = [
    (-62135596800, 0),
    (253402300799, 999_999_999),
    (-12219292801, 999_999_999),
    (-86401, 500_000_000),
    (-5, 5),
    (0, 1),
    (1_700_000_000, 123_456_789),
]


def _timestamps(values: list[tuple[int, int]], zone: str = "UTC") -> bytes:
    import zoneinfo

    file = io.BytesIO()
    schema = schema_text(acid_types(parse_hive_type("struct<t:timestamp,l:array<timestamp>>")))
    with pyorc.Writer(
        file, schema, timezone=zoneinfo.ZoneInfo(zone), converters={pyorc.TypeKind.TIMESTAMP: _Raw}
    ) as writer:
        for number, value in enumerate(values):
            writer.write((0, 1, 536870912, number, 1, (value, [value, None])))
    return file.getvalue()


@pytest.mark.parametrize("times", [_TIMES[:3], _TIMES[3:4], _TIMES[4:5], _TIMES[5:], _TIMES])
def test_timestamps_keep_every_bit(tmp_path: Path, raw_rows: RawRows, times: list[tuple[int, int]]) -> None:
    (tmp_path / "in").write_bytes(_timestamps(times))
    source = BytesSource((tmp_path / "in").read_bytes())
    tail = read_tail(source)
    reencode(pieces_of(source, tail), tmp_path / "re", like=tail, types=tail.types)
    assert raw_rows(tmp_path / "re") == raw_rows(tmp_path / "in")


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Asia/Tokyo", "UTC"])
def test_fractions_around_1970_do_not_move(tmp_path: Path, raw_rows: RawRows, zone: str) -> None:
    """Arrow is a second off for times before 1970 in UTC but after it on the writer's clock, or the reverse."""
    times = [(hour * 3600 + 1800, 500_000_000) for hour in range(-12, 12)]
    (tmp_path / "in").write_bytes(_timestamps(times, zone))
    source = BytesSource((tmp_path / "in").read_bytes())
    tail = read_tail(source)
    reencode(pieces_of(source, tail), tmp_path / "re", like=tail, types=tail.types)
    assert raw_rows(tmp_path / "re") == raw_rows(tmp_path / "in")


def test_arrow_says_that_it_would_lose_a_timestamp(tmp_path: Path) -> None:
    """Arrow raises beyond 64 bits of nanoseconds, and writes fractions before 1970 with the wrong sign."""
    source = BytesSource(_timestamps(_TIMES[:1]))
    with pytest.raises(Unfit, match="out of range"):
        list(ARROW.read_batches(source, read_tail(source)))
    source = BytesSource(_timestamps(_TIMES[3:4]))
    tail = read_tail(source)
    with pytest.raises(Unfit, match="before 1970"):
        encode_acid(ARROW.read_batches(source, tail), tmp_path / "re", like=tail, types=tail.types)
    assert not (tmp_path / "re").exists()


@pytest.mark.parametrize("codec", [ARROW, PYORC], ids=lambda codec: codec.name)
def test_instants_stay_instants(tmp_path: Path, raw_rows: RawRows, codec: Codec) -> None:
    source = acid_source("struct<t:timestamp with local time zone>", [(datetime(2024, 3, 1, 1, 2, 3, 4, tzinfo=UTC),)])
    (tmp_path / "in").write_bytes(source.read(0, source.length))
    tail = read_tail(source)
    out = encode_acid(codec.read_batches(source, tail), tmp_path / "re", like=tail, types=tail.types, codec=codec)
    assert out.types == tail.types
    assert raw_rows(tmp_path / "re") == raw_rows(tmp_path / "in")


def test_a_writers_time_zone_does_not_move_the_wall_clock(tmp_path: Path) -> None:
    source = BytesSource(_timestamps([(1_700_000_000, 5), (1_500_000_000, 7)], zone="Europe/Berlin"))
    tail = read_tail(source)

    def wall_clock(file: Any) -> list[Any]:
        return po.ORCFile(file).read().column("row").to_pylist()

    reencode(pieces_of(source, tail), tmp_path / "re", like=tail, types=tail.types)
    assert wall_clock(str(tmp_path / "re")) == wall_clock(pa.BufferReader(source.read(0, source.length)))


def test_unions_are_copied_and_never_re_encoded(tmp_path: Path, raw_rows: RawRows) -> None:
    source = acid_source("struct<u:uniontype<int,string>>", [(1,), ("x",)])
    tail = read_tail(source)
    with pytest.raises(NotLossless, match="uniontype"):
        reencode(pieces_of(source, tail), tmp_path / "re", like=tail, types=tail.types)
    for codec in (ARROW, PYORC):  # a reader, which does not check types beforehand, gets the error from either
        with pytest.raises(NotLossless, match=r"file <memory>: .*uniontype"):
            list(codec.read_batches(source, tail))
    assembler = Assembler(LocalSink(tmp_path / "out"), like=tail)
    assembler.append_file(source, tail)
    assembler.close({})
    assert "'x'" in raw_rows(tmp_path / "out")
    assert [batch.column("rowId").to_pylist() for batch in read_keys(source, tail, 0)] == [[0, 1]]


def test_encrypted_files_are_refused(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 10))
    with pytest.raises(NotLossless, match="encrypted"):
        reencode(pieces_of(source, replace(tail, encrypted=True)), tmp_path / "re", like=tail, types=tail.types)


def test_a_text_that_is_not_utf8_passes_arrow(tmp_path: Path, raw_rows: RawRows) -> None:
    source = acid_source("struct<b:binary>", [(b"\xff\xfe",)])
    data = read_tail(source)
    types = acid_types(parse_hive_type("struct<b:string>"))
    tail = replace(data, types=types)  # the same bytes, declared as text
    out = reencode(pieces_of(source, tail), tmp_path / "re", like=tail, types=types)
    with LocalSource(tmp_path / "re") as encoded:
        batch = next(ARROW.read_batches(encoded, out))
    assert batch.column("row").field(0).cast(pa.binary(), safe=False).to_pylist() == [b"\xff\xfe"]


def _days(days: list[datetime], calendar: int) -> tuple[BytesSource, Tail]:
    file = io.BytesIO()
    with pyorc.Writer(file, schema_text(acid_types(parse_hive_type("struct<d:date,t:timestamp>")))) as writer:
        for number, day in enumerate(days):
            writer.write((0, 1, 536870912, number, 1, (day.date(), day)))
    source = BytesSource(file.getvalue())
    return source, replace(read_tail(source), calendar=calendar)


def test_days_before_1582_never_change_their_calendar() -> None:
    """PROTOCOL 2.2: calendars are not mixed, except for later days, on which they all agree."""
    _, modern = _days([datetime(1582, 10, 16, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)], 1)
    _, old = _days([datetime(1582, 10, 4, tzinfo=UTC)], 1)
    check_calendar(modern, replace(modern, calendar=2))
    check_calendar(old, old)
    for calendar in (0, 2):
        with pytest.raises(NotLossless, match="before 1582-10-15"):
            check_calendar(old, replace(old, calendar=calendar))
    with pytest.raises(NotLossless, match="before 1582-10-15"):
        check_calendar(replace(modern, stripe_statistics=None), replace(modern, calendar=2))


def test_damaged_stripes_are_a_bad_file(write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 5000))
    stripe = tail.stripes[0]
    good = source.read(0, source.length)
    damaged = good[: stripe.offset] + b"\x55" * (stripe.length - 200) + good[stripe.end - 200 :]
    for codec in (ARROW, PYORC):
        with pytest.raises(BadFile, match=r"stripe 0: .* of its stream 1 of column 1"):
            list(codec.read_batches(BytesSource(damaged, "f"), tail))


def test_a_failure_on_the_way_leaves_no_file(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 10))

    def broken(codec: Codec) -> Iterator[pa.RecordBatch]:
        yield from codec.read_batches(source, tail)
        raise ZeroDivisionError

    for codec in (ARROW, PYORC):
        with pytest.raises(ZeroDivisionError):
            encode_acid(broken(codec), tmp_path / "re", like=tail, types=tail.types, codec=codec)
        assert not (tmp_path / "re").exists()


def test_sliced_batches_are_written_whole(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    """Arrow's writer reads the validity of a sliced struct at the wrong offset."""
    rows = [None if i % 3 else (i, f"{i}") for i in range(100)]
    source = acid_source("struct<a:int,b:string>", rows)
    tail = read_tail(source)
    batch = next(ARROW.read_batches(source, tail))
    encode_acid([batch.slice(7, 50)], tmp_path / "re", like=tail, types=tail.types)
    with open(tmp_path / "re", "rb") as file:
        assert [row[5] for row in pyorc.Reader(file)] == rows[7:57]


def test_small_batches_are_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order is kept; several batches together never exceed JOINED_BYTES."""
    batches = [pa.record_batch({"a": pa.array(range(n, n + 3))}) for n in range(0, 30, 3)]
    (whole,) = concatenate_small_batches(iter(batches))
    assert whole.column(0).to_pylist() == list(range(30))
    monkeypatch.setattr(reencode_module, "JOINED_BYTES", 4 * batches[0].nbytes)
    assert [batch.num_rows for batch in concatenate_small_batches(batches)] == [12, 12, 6]
    monkeypatch.setattr(reencode_module, "JOINED_BYTES", 1)
    assert list(concatenate_small_batches(batches)) == batches
    assert list(concatenate_small_batches([])) == []


_MIXED = "struct<a:int,b:varchar(3),s:struct<x:smallint>,l:array<int>,m:map<string,float>,d:decimal(5,2),t:timestamp>"


def _small(number: int) -> Piece:
    full = (
        number,
        f"é{number}",
        (2,),
        [3, None],
        {"k": 0.5},
        Decimal("1.25"),
        datetime(2020, 1, number + 1, tzinfo=UTC),
    )
    source = acid_source(_MIXED, [full, (None,) * 7, None])
    return Piece(source=source, tail=read_tail(source), stripe_index=0)


@pytest.mark.parametrize("judged", [None, 2])
def test_small_stripes_of_many_files_are_decoded_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judged: int | None
) -> None:
    """The result is the same as one by one; stripes that lose rows are decoded separately."""
    pieces = [_small(number) for number in range(6)]
    if judged is not None:
        pieces[judged] = pieces[judged]._replace(keep=pa.array([True, False, True]))
    types = pieces[0].tail.types
    joint: list[int] = []
    read = arrow_codec.read_joint
    monkeypatch.setattr(arrow_codec, "read_joint", lambda stripes: joint.append(len(stripes)) or read(stripes))
    reencode(pieces, tmp_path / "joint", like=pieces[0].tail, types=types)
    assert joint == ([6] if judged is None else [2, 3])
    monkeypatch.setattr(reencode_module, "JOINT_BYTES", 0)
    reencode(pieces, tmp_path / "single", like=pieces[0].tail, types=types)
    assert len(joint) < 3
    assert (tmp_path / "joint").read_bytes() == (tmp_path / "single").read_bytes()


def test_stripes_of_unlike_files_are_not_decoded_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = acid_source("struct<a:int>", [(1,)])
    new = acid_source("struct<a:bigint>", [(2,)])
    pieces = [piece for source in (old, old, new) for piece in pieces_of(source, read_tail(source))]
    joint: list[int] = []
    read = arrow_codec.read_joint
    monkeypatch.setattr(arrow_codec, "read_joint", lambda stripes: joint.append(len(stripes)) or read(stripes))
    tail = reencode(pieces, tmp_path / "re", like=pieces[2].tail, types=pieces[2].tail.types)
    assert (joint, tail.rows) == ([2], 3)


def test_of_many_small_stripes_the_damaged_one_is_named(tmp_path: Path) -> None:
    pieces = [_small(number) for number in range(4)]
    stripe, good = pieces[2].tail.stripes[0], pieces[2].source
    data = good.read(0, good.length)
    damaged = data[: stripe.offset] + b"\x55" * (stripe.length - 200) + data[stripe.end - 200 :]
    pieces[2] = pieces[2]._replace(
        source=BytesSource(damaged, "the-third"), tail=replace(pieces[2].tail, name="the-third")
    )
    with pytest.raises(BadFile, match="the-third"):
        reencode(pieces, tmp_path / "re", like=pieces[0].tail, types=pieces[0].tail.types)
    assert not (tmp_path / "re").exists()
