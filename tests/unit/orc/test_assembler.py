"""Files made of copied stripes, read by two other readers."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from pyorc.predicates import PredicateColumn

from compactor.base.errors import BadFile, NotLossless
from compactor.orc.assembler import PIECE, Assembler, RunningChecksum, write_empty
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.stripe_footer import (
    BLOOM,
    BLOOM_UTF8,
    NO_ENCODING,
    ROW_INDEX,
    filter_streams,
    read_indexes,
    read_stripe_footer,
)
from compactor.orc.format.tail import Filters, FilterStream, Tail, read_tail
from compactor.orc.format.types import acid_types
from compactor.orc.io.source import CHUNK, BytesSource, LocalSink, LocalSource, Source
from compactor.orc.point_check import check_filters
from compactor.orc.stripe_compatibility import is_copyable
from tests.support.patience import PATIENCE

Opened = Callable[[Path], tuple[LocalSource, Tail]]
WriteAcid = Callable[..., Path]


def _assembled(inputs: list[tuple[LocalSource, Tail]], path: Path, checksum: bool = False) -> Tail:
    assembler = Assembler(LocalSink(path), like=inputs[0][1], checksum=checksum)
    for source, tail in inputs:
        assembler.append_file(source, tail)
    written = assembler.close({"hive.acid.version": b"2"})
    assert written.length == path.stat().st_size
    if checksum:
        assert written.checksum == zlib.crc32(path.read_bytes())
    with LocalSource(path) as source:
        tail = read_tail(source)
    assert (tail.rows, len(tail.stripes)) == (written.rows, written.stripes)
    return tail


def test_large_stripes_are_copied_by_the_kernel_while_the_checksum_is_computed(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened
) -> None:
    """PROTOCOL 4: the checksum is that of the file, however its bytes were copied."""
    path = write_acid(1, 600_000, compression="uncompressed")
    source, tail = opened(path)
    assert sum(stripe.length for stripe in tail.stripes) >= CHUNK
    inputs = [(source, tail), opened(write_acid(2, 10, compression="uncompressed"))]
    copy = _assembled(inputs, tmp_path / "out", checksum=True)
    assert copy.rows == 600_010
    before = threading.active_count()
    with LocalSink(tmp_path / "half") as sink, Assembler(sink, like=tail, checksum=True) as assembler:
        for one in inputs:
            assembler.append_file(*one)
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


class _Taking(LocalSink):
    """A sink whose file system takes everything over, behind ``padding`` bytes; ``whole`` records what it was told."""

    padding = 5

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.whole: list[bool] = []

    def take_over(self, source: Source, offset: int, length: int, *, whole: bool = False) -> int:
        self.skip(self.padding)
        start = self.tell()
        self.copy(source, offset, length)
        self.whole.append(whole)
        return start


def test_what_was_not_seen_has_no_checksum(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    """PROTOCOL 4: a checksum is one of bytes that passed through here. Stripes are where they were put, after padding."""
    paths = [write_acid(write_id, 20_000, compression="zlib", stripe_size=16 * 1024) for write_id in (1, 2)]
    (first, first_tail), (second, second_tail) = inputs = [opened(path) for path in paths]
    sink = _Taking(tmp_path / "out")
    with sink, Assembler(sink, like=first_tail, checksum=True) as assembler:
        for one in inputs:
            assembler.append_file(*one)
        assembler.copy(first, first_tail, 0)
        rows, stripes = assembler.rows, assembler.stripes
        written = assembler.close({"hive.acid.version": b"2"})
    assert (written.rows, written.stripes) == (rows, stripes)
    assert (written.checksum, sink.whole) == (None, [True, True, False])
    copied = [*first_tail.stripes, *second_tail.stripes, first_tail.stripes[0]]
    assert written.taken_over == sum(stripe.length for stripe in copied)
    with LocalSource(tmp_path / "out") as source:
        tail = read_tail(source)
        sources = [first] * len(first_tail.stripes) + [second] * len(second_tail.stripes) + [first]
        for made, old, of in zip(tail.stripes, copied, sources, strict=True):
            assert source.read(made.offset, made.length) == of.read(old.offset, old.length)
    assert tail.stripes[0].offset == 3 + _Taking.padding


def test_a_file_is_not_taken_whole_if_more_follows_that_does_not_count(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened
) -> None:
    """A streaming writer's file may have rows behind its logical length that nobody has committed."""
    path = write_acid(1, 100)
    length = path.stat().st_size
    with path.open("ab") as file:
        file.write(b"more")
    with LocalSource(path) as source:
        tail = read_tail(source, length)
        sink = _Taking(tmp_path / "out")
        with sink, Assembler(sink, like=tail) as assembler:
            assembler.append_file(source, tail)
            assembler.close({})
    assert sink.whole == [False]


#: Of one column in both kinds, and of one without an encoding, as Trino writes them.
FILTERS = frozenset(
    {FilterStream(7, BLOOM_UTF8, 1), FilterStream(7, BLOOM, 1), FilterStream(8, BLOOM_UTF8, NO_ENCODING)}
)


@pytest.mark.parametrize("compression", ["uncompressed", "zlib"])
@pytest.mark.parametrize("filters", [None, Filters(), Filters(streams=FILTERS)], ids=["the first's", "none", "others"])
def test_every_stripe_has_the_same_bloom_filters(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened, filters: Filters | None, compression: str
) -> None:
    """PROTOCOL 2.2: those that a stripe lacks let every value pass; what it has more, or in another encoding, goes."""
    columns = [[7], [], [6, 7, 8]]
    paths = [
        write_acid(
            n, 3000, compression=compression, stripe_size=1 << 24, row_index_stride=1000, bloom_filter_columns=of
        )
        for n, of in enumerate(columns)
    ]
    inputs = [opened(path) for path in paths]
    sink = _Taking(tmp_path / "out")
    with sink, Assembler(sink, like=replace(inputs[0][1], filters=filters), checksum=True) as assembler:
        for source, tail in inputs:
            assembler.append_file(source, tail)
        written = assembler.close({})
    source, tail = opened(tmp_path / "out")
    wanted = frozenset({FilterStream(7, BLOOM_UTF8, 1)}) if filters is None else filters.streams
    footers = [read_stripe_footer(source, tail, number) for number in range(3)]
    assert [filter_streams(footer) for footer in footers] == [wanted] * 3
    check_filters(source, tail)
    own = set()
    for number, footer in enumerate(footers):
        for kind, column, index in read_indexes(source, tail, number, footer, {6, 7, 8}):
            if kind != ROW_INDEX:
                assert len(index.bloom_filter) == 3
                own |= {(number, column) for one in index.bloom_filter if len(one.utf8bitset) > 8}
    assert own == ({(0, 7), (2, 7)} if wanted else set())
    as_they_were = [0] if filters is None else [] if wanted else [1]
    assert written.taken_over == sum(inputs[number][1].stripes[0].length for number in as_they_were)
    rows = pa.concat_tables([po.ORCFile(str(path)).read() for path in paths])
    assert po.ORCFile(str(tmp_path / "out")).read().equals(rows)
    value = rows.column("row").combine_chunks().field(0)[8500].as_py()
    with open(tmp_path / "out", "rb") as file:
        predicate = PredicateColumn(pyorc.TypeKind.LONG, index=7) == value
        found = [row for row in pyorc.Reader(file, predicate=predicate) if row[5][0] == value]
    assert len(found) == rows.column("row").combine_chunks().field(0).to_pylist().count(value)


@pytest.mark.parametrize("checksum", [False, True])
@pytest.mark.parametrize("compression", ["uncompressed", "zlib", "snappy", "zstd", "lz4"])
def test_a_copy_is_the_concatenation_of_its_inputs(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened, compression: str, checksum: bool
) -> None:
    paths = [write_acid(write_id, 20_000, compression=compression, stripe_size=16 * 1024) for write_id in (1, 2, 3)]
    inputs = [opened(path) for path in paths]
    assert len(inputs[0][1].stripes) > 1
    tail = _assembled(inputs, tmp_path / "out", checksum)
    wanted = pa.concat_tables([po.ORCFile(str(path)).read() for path in paths])
    assert po.ORCFile(str(tmp_path / "out")).read().equals(wanted)
    with open(tmp_path / "out", "rb") as file:
        reader = pyorc.Reader(file)
        assert len(reader) == 60_000
        assert sum(1 for _ in reader) == 60_000
        assert reader[4].statistics["maximum"] == 19_999
        assert reader.user_metadata == {"hive.acid.version": b"2"}
    assert is_copyable(tail)
    assert tail.stripe_class == inputs[0][1].stripe_class


def test_point_predicates_are_answered_correctly_in_every_stripe(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened
) -> None:
    """PROTOCOL 4: one point predicate per stripe is answered correctly (a count alone accepts broken files)."""
    paths = [write_acid(1, 30_000, first=first, row_index_stride=1000) for first in (0, 30_000, 60_000)]
    tail = _assembled([opened(path) for path in paths], tmp_path / "out")
    column = PredicateColumn(pyorc.TypeKind.LONG, name="rowId")
    start = 0
    for stripe in tail.stripes:
        wanted = start + stripe.rows // 2
        with open(tmp_path / "out", "rb") as file:
            rows = [row for row in pyorc.Reader(file, predicate=column == wanted) if row[3] == wanted]
        assert rows == [(0, 1, 536870912, wanted, 1, (wanted, f"name {wanted * wanted * 2654435761 % 1000003}"))]
        start += stripe.rows
    assert start == 90_000


def test_single_stripes_can_be_chosen(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 60_000))
    chosen = range(0, len(tail.stripes), 2)
    assembler = Assembler(LocalSink(tmp_path / "out"), like=tail)
    for number in chosen:
        assembler.copy(source, tail, number)
    assembler.close({})
    file = po.ORCFile(source.name)
    wanted = pa.Table.from_batches([file.read_stripe(number) for number in chosen])
    assert po.ORCFile(str(tmp_path / "out")).read().equals(wanted)


def test_real_files_copied_onto_themselves(
    real_files: list[Path], tmp_path: Path, opened: Opened, raw_rows: Callable[[Path], str]
) -> None:
    for number, path in enumerate(real_files):
        source, tail = opened(path)
        out = tmp_path / str(number)
        if is_copyable(tail):
            copied = _assembled([(source, tail)], out)
            assert raw_rows(out) == raw_rows(path), path
            assert copied.types == tail.types, path
            writer = tail.calendar, tail.writer, tail.writer_version
            assert (copied.calendar, copied.writer, copied.writer_version) == writer, path
            assert copied.stripe_statistics == tail.stripe_statistics, path
        elif tail.stripes:
            with pytest.raises(NotLossless, match="re-encode"):
                Assembler(LocalSink(out), like=tail).append_file(source, tail)


def test_stripes_of_another_class_are_refused(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    """PROTOCOL 2.2: stripes of mixed strides never share a file."""
    like, other = opened(write_acid(1, 100)), opened(write_acid(2, 100, row_index_stride=1000))
    with LocalSink(tmp_path / "out") as sink:
        assembler = Assembler(sink, like=like[1])
        with pytest.raises(NotLossless, match="re-encode"):
            assembler.append_file(*other)


def test_the_largest_block_and_the_oldest_writer_are_recorded(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened
) -> None:
    """PROTOCOL 2.2: the block size is the largest, the writer version the lowest."""
    a, tail_a = opened(write_acid(1, 100, compression_block_size=65536))
    b, tail_b = opened(write_acid(2, 100, compression_block_size=262144))
    tail_b = replace(tail_b, writer=0, writer_version=9, software="2.1.2")
    tail = _assembled([(a, tail_a), (b, tail_b)], tmp_path / "out")
    assert (tail.compression_block_size, tail.writer, tail.writer_version, tail.software) == (262144, 0, 6, "")


def test_names_of_the_target_are_written(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 100))
    types = acid_types(parse_hive_type("struct<Ä:bigint,b:string>"))
    assembler = Assembler(LocalSink(tmp_path / "out"), like=tail, types=types)
    assembler.append_file(source, tail)
    assembler.close({})
    with LocalSource(tmp_path / "out") as out:
        assert read_tail(out).types == types
    other = acid_types(parse_hive_type("struct<a:int,b:string>"))
    with LocalSink(tmp_path / "not") as sink, pytest.raises(NotLossless, match="is expected"):
        Assembler(sink, like=tail, types=other)


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZLIB, Compression.ZSTD])
def test_a_file_without_rows(tmp_path: Path, compression: Compression) -> None:
    """PROTOCOL 1.4: no directory is ever without files; if all rows were removed, a file with 0 rows remains."""
    types = acid_types(parse_hive_type("struct<a:int,b:array<decimal(10,2)>,c:map<string,timestamp>,d:char(3)>"))
    metadata = {"hive.acid.version": b"2"}
    written = write_empty(LocalSink(tmp_path / "out"), types, compression=compression, user_metadata=metadata)
    assert (written.rows, written.stripes) == (0, 0)
    file = po.ORCFile(str(tmp_path / "out"))
    assert (file.nrows, file.read().num_rows) == (0, 0)
    with open(tmp_path / "out", "rb") as stream:
        reader = pyorc.Reader(stream)
        assert list(reader) == []
        assert str(reader.schema) == schema_text(types)
    tail = read_tail(BytesSource((tmp_path / "out").read_bytes()))
    assert len(tail.statistics) == len(types)
    assert (tail.types, dict(tail.user_metadata)) == (types, metadata)


def _threads() -> int:
    return sum(thread.name.startswith("checksum") for thread in threading.enumerate())


def test_parts_in_their_order(tmp_path: Path) -> None:
    data = os.urandom(3 * PIECE + 17)
    (tmp_path / "f").write_bytes(data)
    running = RunningChecksum()
    running.add(b"first")
    assert _threads() == 0
    with LocalSource(tmp_path / "f") as source:
        running.add_range(source, 3, len(data) - 3)
        running.add(b"between")
        for _ in range(200):  # more parts than may wait
            running.add_range(source, 0, 10)
        wanted = zlib.crc32(b"first" + data[3:] + b"between" + data[:10] * 200)
        assert running.value() == wanted
    assert _threads() == 0


def test_a_range_beyond_the_end_is_refused() -> None:
    running = RunningChecksum()
    running.add_range(BytesSource(b"short", "<five>"), 2, 100)
    with pytest.raises(BadFile, match="<five>"):
        running.value()
    running.close()
    assert _threads() == 0


def test_an_abandoned_checksum_stops_reading() -> None:
    entered, go = threading.Event(), threading.Event()

    class Slow(BytesSource):
        reads = 0

        def read(self, offset: int, length: int) -> bytes:
            self.reads += 1
            entered.set()
            assert go.wait(PATIENCE)
            return super().read(offset, length)

    source = Slow(bytes(10 * PIECE))
    running = RunningChecksum()
    running.add_range(source, 0, 10 * PIECE)
    running.add_range(source, 0, 10 * PIECE)
    assert entered.wait(PATIENCE)
    closing = threading.Thread(target=running.close)
    closing.start()
    while not running.is_closed:
        pass
    go.set()
    closing.join(PATIENCE)
    assert (source.reads, _threads()) == (1, 0)
