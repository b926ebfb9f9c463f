"""Some stripes of a file as presented to decoders, in batches of bounded size."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.base.errors import BadFile
from compactor.orc.codecs import arrow_codec, stripe_view
from compactor.orc.codecs import stripe_view as view_module
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import KEYS, Codec, Unfit
from compactor.orc.codecs.stripe_view import BATCH_ROWS, RowWidths, StripeView, batch_rows, flat_bytes, joint_file
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression, decompress
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.length_checks import Lengths, check_lengths
from compactor.orc.format.plain_streams import PlainStream, plain_streams
from compactor.orc.format.stripe_footer import DATA, DICTIONARY_V2, DIRECT_V2, read_stripe_footer
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.io.source import BytesSource, LocalSource
from compactor.orc.stripe_compatibility import WRITABLE
from tests.support import bombs
from tests.support.sizes import sized

Opened = Callable[[Path], tuple[LocalSource, Tail]]
WriteAcid = Callable[..., Path]


def test_chosen_stripes_are_read_and_no_others(write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 60_000))
    file = po.ORCFile(source.name)
    assert len(tail.stripes) > 2
    for chosen in ([0], [1], [0, 2], list(range(len(tail.stripes)))):
        wanted = pa.concat_tables([pa.Table.from_batches([file.read_stripe(i)]) for i in chosen])
        for codec in (ARROW, PYORC):
            found = pa.Table.from_batches(list(codec.read_batches(source, tail, stripes=chosen)))
            assert found.equals(wanted), codec.name
    assert list(ARROW.read_batches(source, tail, stripes=[])) == []


def test_batches_are_bounded_and_whole(write_acid: WriteAcid, opened: Opened) -> None:
    """PROTOCOL 2.4: decode in row batches, never a stripe at once."""
    source, tail = opened(write_acid(1, 5000))
    for codec in (ARROW, PYORC):
        batches = list(codec.read_batches(source, tail, rows=64))
        assert max(batch.num_rows for batch in batches) <= 64
        assert pa.Table.from_batches(batches).equals(po.ORCFile(source.name).read())


def test_only_wanted_columns_in_any_codec(write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(3, 100))
    for codec in (ARROW, PYORC):
        (batch,) = codec.read_batches(source, tail, columns=KEYS)
        assert batch.schema.names == ["operation", "originalTransaction", "bucket", "rowId", "currentTransaction"]
        (batch,) = codec.read_batches(source, tail, columns=(3, 1))
        assert batch.to_pylist()[7] == {"rowId": 7, "originalTransaction": 3}


def test_wide_rows_come_in_small_batches(tmp_path: Path, opened: Opened) -> None:
    """PROTOCOL 2.4: memory is bounded by rows × width."""
    po.write_table(pa.table({"a": ["x" * 1_000_000] * 100}), str(tmp_path / "wide"), compression="zlib")
    source, tail = opened(tmp_path / "wide")
    assert source.length < 1_000_000
    assert batch_rows(tail, [0], None) == 33
    assert max(batch.num_rows for batch in ARROW.read_batches(source, tail)) <= 33


def test_key_columns_come_in_large_batches(write_acid: WriteAcid, opened: Opened) -> None:
    _, tail = opened(write_acid(1, 10))
    assert batch_rows(tail, [0], KEYS) == BATCH_ROWS


def test_a_view_is_a_file(write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 100))
    view = StripeView(source, tail, [0], None)
    assert view.read(3) == b"ORC"
    view.seek(-1, os.SEEK_END)
    last = view.read()
    assert (len(last), view.tell()) == (1, view.size)
    assert view.read(1) == b""
    view.seek(0)
    whole = view.read()
    for start, size in ((0, 1), (2, 5), (100, 400), (view.size - 10, 20)):
        view.seek(start)
        assert view.read(size) == whole[start : start + size]
    assert po.ORCFile(pa.PythonFile(view, mode="r")).nrows == 100


def test_a_view_is_plain_and_has_only_the_columns_read(write_acid: WriteAcid, opened: Opened) -> None:
    """Row indexes refer to compressed chunks; reading whole stripes needs none."""
    source, tail = opened(write_acid(1, 60_000))
    found = BytesSource(StripeView(source, tail, [1], (0, 3)).read())
    seen = read_tail(found)
    assert (seen.compression, seen.row_index_stride, seen.rows) == (Compression.NONE, 0, tail.stripes[1].rows)
    streams = read_stripe_footer(found, seen, 0).streams
    assert {stream.column for stream in streams} == {1, 4}
    assert {stream.kind for stream in streams} == {DATA}


@pytest.mark.parametrize("room", [0, 40_000, 1 << 30])
@pytest.mark.parametrize("compression", sorted(WRITABLE), ids=lambda compression: compression.name)
def test_rows_are_the_same_however_much_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: Compression, room: int
) -> None:
    """PROTOCOL 2.4: data that does not fit into memory is decompressed when it is read."""
    monkeypatch.setattr(view_module, "KEPT_BYTES", room)
    count = sized(short=20_000, whole=100_000)
    types = parse_hive_type("struct<a:bigint,b:string,c:array<string>>")
    schema = arrow_codec.schema(types)
    rows = pa.record_batch(
        [
            pa.array([n * n for n in range(count)]),
            pa.array([f"{n * 7919 % 10_007} is the name" for n in range(count)]),
            pa.array([[str(n)] * (n % 3) for n in range(count)]),
        ],
        schema=schema,
    )
    with arrow_codec.writer(tmp_path / "f", like=empty_tail(types, compression=compression), types=types) as out:
        out.write(rows)
    with LocalSource(tmp_path / "f") as source:
        tail = read_tail(source)
        for size in (count, count // 33):  # at once, or through the view batch by batch
            found = list(ARROW.read_batches(source, tail, rows=size))
            assert pa.Table.from_batches(found).rename_columns(schema.names).equals(pa.Table.from_batches([rows]))
        assert len(found) > 30


@pytest.mark.parametrize("codec", [ARROW, PYORC], ids=lambda codec: codec.name)
@pytest.mark.parametrize("compression", [Compression.ZLIB, Compression.SNAPPY, Compression.ZSTD], ids=str)
def test_a_damaged_chunk_is_a_bad_file(tmp_path: Path, compression: Compression, codec: Codec) -> None:
    """The library itself would mistake zstd's error for a length, and read beyond its memory."""
    types = parse_hive_type("struct<a:tinyint>")
    schema = arrow_codec.schema(types)
    with arrow_codec.writer(tmp_path / "f", like=empty_tail(types, compression=compression), types=types) as out:
        out.write(pa.record_batch([pa.array([n * n % 97 for n in range(5000)], pa.int8())], schema=schema))
    whole = (tmp_path / "f").read_bytes()
    tail = read_tail(BytesSource(whole))
    stripe = tail.stripes[0]
    (stream,) = [s for s in read_stripe_footer(BytesSource(whole), tail, 0).streams if s.kind == DATA]
    start = stripe.offset + stripe.index_length
    refused = 0
    for place in range(start + 3, start + stream.length, 5):
        damaged = BytesSource(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        try:
            decompress(damaged.read(start, stream.length), tail.compression, tail.compression_block_size, "f")
        except BadFile:
            refused += 1
            with pytest.raises(BadFile, match=f"stripe 0: its stream 1 of column 1 is not {compression.name} data"):
                list(codec.read_batches(damaged, tail))
    assert refused > 3


def widths(row: str, lengths: Mapping[int, Lengths], *, kind: int = DIRECT_V2, data: int = 0) -> RowWidths:
    types = parse_hive_type(row)
    footer = messages.StripeFooter()
    for _ in types:
        footer.columns.add(kind=kind)
    streams = [PlainStream(DATA, column, data, []) for column in lengths if data]
    return RowWidths(types=types, footer=footer, lengths=lengths, streams=streams)


@pytest.mark.parametrize(
    ("row", "lengths", "more", "wanted"),
    [
        ("struct<a:int,b:timestamp>", {}, {}, 100 * 24),
        ("struct<a:string>", {1: Lengths(2, 50, 40)}, {"kind": DICTIONARY_V2}, 100 * 48),
        ("struct<a:string>", {1: Lengths(100, 500, 40)}, {"data": 450}, 100 * 8 + 450),
        ("struct<a:string>", {1: Lengths(100, 9000, 2)}, {"data": 9000}, 100 * 8 + 200),
        ("struct<a:array<bigint>>", {1: Lengths(100, 1000, 90)}, {}, 100 * 8 + 1000 * 8),
        ("struct<a:struct<b:map<int,int>>>", {2: Lengths(100, 9999, 3)}, {}, 100 * 16 + 2 * 300 * 8),
    ],
)
def test_a_width_is_the_most_that_rows_can_take(
    row: str, lengths: Mapping[int, Lengths], more: dict[str, Any], wanted: int
) -> None:
    found = widths(row, lengths, **more)
    assert found.bytes_of(found.types[0].children, 100) == wanted


def test_an_estimate_that_is_too_much_is_made_exact() -> None:
    """Encoders store lengths in whole bytes: a text of 300 bytes may seem to have 65,535."""
    file = io.BytesIO()
    po.write_table(pa.table({"a": ["x" * 300, "y" * 299]}), file, dictionary_key_size_threshold=1.0)
    source = BytesSource(file.getvalue())
    tail = read_tail(source)
    stripe = read_stripe_footer(source, tail, 0)
    streams = plain_streams(source, tail, 0, stripe, range(2))
    lengths = check_lengths(streams, stripe, tail, 0)
    assert lengths[1].longest == 65_535
    found = RowWidths(types=tail.types, footer=stripe, streams=streams, lengths=lengths)
    assert (found.bytes_of([1], 1), found.bytes_of([1], 1000)) == (65_543, 308_000)
    assert found.rows_within([1], 65_536) == 65_536


def test_rows_are_halved_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stripe_view, "MOST_BYTES", 1000)
    found = widths("struct<a:string>", {1: Lengths(1, 92, 92)}, kind=DICTIONARY_V2)
    assert [found.rows_within([1], rows) for rows in (1, 10, 11, 65_536)] == [1, 10, 5, 8]


@pytest.mark.parametrize("codec", [ARROW, PYORC], ids=["arrow", "pyorc"])
def test_a_long_text_in_a_dictionary_makes_short_batches(codec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 2.4: statistics that say that texts are short change nothing about it."""
    monkeypatch.setattr(stripe_view, "MOST_BYTES", 1 << 20)
    source = BytesSource(bombs.long_dictionary(rows=500, length=50_000))
    rows = [batch.num_rows for batch in codec.read_batches(source, read_tail(source))]
    assert (sum(rows), max(rows) <= 20) == (500, True)


def test_one_row_that_cannot_be_decoded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stripe_view, "MOST_ROW_BYTES", 10_000)
    source = BytesSource(bombs.long_lists(1 << 20), "f")
    with pytest.raises(BadFile, match=r"file f, stripe 0: one of its rows takes [0-9]+ bytes, at most 10000"):
        list(ARROW.read_batches(source, read_tail(source)))


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_BUFFERS"])
def test_stripes_that_take_much_are_not_decoded_together(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = BytesSource(bombs.long_blocks(4))
    stripes = [(source, read_tail(source), 0)] * 2
    assert joint_file(stripes)
    monkeypatch.setattr(stripe_view, limit, 50)
    with pytest.raises(Unfit):
        joint_file(stripes)


@pytest.mark.parametrize("kind", [DIRECT_V2, DICTIONARY_V2])
def test_the_quick_bound_of_flat_rows_is_never_below_the_exact_one(kind: int) -> None:
    row = "struct<a:int,b:string,c:timestamp,d:decimal(30,2),e:struct<f:binary,g:double>>"
    lengths = {2: Lengths(number=7, total=900, longest=300), 6: Lengths(number=7, total=80, longest=40)}
    made = widths(row, lengths, kind=kind, data=900)
    quick = flat_bytes(made.types, lengths, 7)
    assert quick is not None
    assert quick >= made.bytes_of(made.types[0].children, 7) > 900


@pytest.mark.parametrize("row", ["struct<a:array<int>>", "struct<a:struct<b:map<int,string>>>"])
def test_there_is_no_quick_bound_where_a_row_has_many_values(row: str) -> None:
    assert flat_bytes(parse_hive_type(row), {}, 1) is None
