"""Plain files made of the stripes of ACID files, read by readers that share no code with the writer."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.orc as po
import pyorc
import pytest
from pyorc.predicates import PredicateColumn

from compactor.base.errors import NotLossless
from compactor.orc.detach import PlainFileWriter
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.plain_streams import plain_streams
from compactor.orc.format.stripe_footer import (
    BLOOM_UTF8,
    PRESENT,
    filter_streams,
    read_indexes,
    read_stripe_footer,
)
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.tail_writer import tail_bytes
from compactor.orc.format.types import Types, acid_types
from compactor.orc.io.source import BytesSource, LocalSink, LocalSource, Source
from compactor.orc.stripe_compatibility import is_copyable
from compactor.rows.new_file import NewFile
from compactor.storage.capabilities import TakingOver
from tests.support.orc_files import acid_source
from tests.support.reflinks import xfs

Opened = Callable[[Path], tuple[LocalSource, Tail]]
WriteAcid = Callable[..., Path]
RawValues = Callable[[Path], list[tuple[Any, ...]]]


def _detached(source: LocalSource | BytesSource, tail: Tail, path: Path, types: Types | None = None) -> Tail:
    """Copies all stripes of a file; the footer at ``path`` is as the writer described it."""
    with LocalSink(path) as sink:
        writer = PlainFileWriter(sink=sink, types=types or tail.types.row, like=tail)
        for number in range(len(tail.stripes)):
            writer.copy(source, tail, number)
        written = writer.close()
    with LocalSource(path) as detached:
        read = read_tail(detached)
        assert (read.rows, read.stripes, read.types) == (written.rows, written.stripes, written.types)
        return read


def test_real_files_keep_their_rows(
    real_files: list[Path], tmp_path: Path, opened: Opened, raw_values: RawValues
) -> None:
    """PROTOCOL 15.7: a detached file has the rows of its ACID file in the same order, bit by bit."""
    for number, path in enumerate(real_files):
        source, tail = opened(path)
        if "delete_delta" in str(path) or not is_copyable(tail) or _has_null_rows(tail):
            continue
        target = tmp_path / str(number)
        detached = _detached(source, tail, target)
        rows = raw_values(path)
        assert repr(raw_values(target)) == repr([row[5] for row in rows] if tail.is_acid else rows)
        assert not detached.is_acid
        assert po.ORCFile(target).nrows == tail.rows


def _has_null_rows(tail: Tail) -> bool:
    """Delete events among the rows of Hive 2 have none."""
    return tail.is_acid and any(parts[6].has_null for parts in tail.stripe_statistics or ())


def test_indexes_and_bloom_filters_still_find_rows(tmp_path: Path) -> None:
    path = tmp_path / "acid"
    schema = schema_text(acid_types(parse_hive_type("struct<id:int,name:string>")))
    with (
        open(path, "wb") as file,
        pyorc.Writer(file, schema, row_index_stride=1000, bloom_filter_columns=[7, 8]) as writer,
    ):
        for n in range(20_000):
            writer.write((0, 1, 1 << 29, n, 1, (n, f"name {n}")))
    with LocalSource(path) as source:
        detached = _detached(source, read_tail(source), tmp_path / "plain")
    with LocalSource(tmp_path / "plain") as source:
        footer = read_stripe_footer(source, detached, 0)
        assert {(stream.column, stream.kind) for stream in filter_streams(footer)} == {(1, BLOOM_UTF8), (2, BLOOM_UTF8)}
        indexes = {(column, kind) for kind, column, _ in read_indexes(source, detached, 0, footer, range(3))}
        assert {column for column, kind in indexes if kind not in (BLOOM_UTF8,)} == {0, 1, 2}
    with open(tmp_path / "plain", "rb") as file:
        column = PredicateColumn(pyorc.TypeKind.INT, "id")
        rows = [row for row in pyorc.Reader(file, predicate=column == 12_345) if row[0] == 12_345]
        assert rows == [(12_345, "name 12345")]
        file.seek(0)
        assert len(list(pyorc.Reader(file, predicate=column == 12_345))) == 1000  # other row groups were skipped


def test_the_footer_forgets_the_acid_file(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 5000))
    tail = replace(tail, user_metadata={"hive.acid.key.index": b"1,536870912,4999;"}, calendar=2)
    detached = _detached(source, tail, tmp_path / "plain")
    assert detached.user_metadata == {}
    assert detached.calendar == 1  # ORC Java converts the days of Gregorian files to the Julian calendar
    assert [part.number_of_values for part in detached.statistics] == [5000, 5000, 5000]
    assert detached.statistics[1].int_statistics.maximum == 4999


def test_types_get_attributes_and_texts_become_strings(tmp_path: Path) -> None:
    source = acid_source("struct<a:varchar(5),b:array<int>>", [("x", [1]), (None, None)])
    types = parse_hive_type("struct<first:string,second:array<int>>")
    types = Types(
        replace(item, attributes=((b"iceberg.id", str(number).encode()),)) for number, item in enumerate(types)
    )
    detached = _detached(source, read_tail(source), tmp_path / "plain", types)
    assert detached.types == types
    schema = po.ORCFile(tmp_path / "plain").schema
    assert [field.metadata[b"iceberg.id"] for field in schema] == [b"1", b"2"]
    assert po.ORCFile(tmp_path / "plain").read().to_pydict() == {"first": ["x", None], "second": [[1], None]}


def test_rows_that_are_null_are_not_copied(tmp_path: Path) -> None:
    """Their columns have fewer values than the stripe has rows."""
    source = acid_source("struct<a:int>", [(1,), None, (3,)])
    with pytest.raises(NotLossless, match="stripe 0: some of its rows are NULL as a whole"):
        _detached(source, read_tail(source), tmp_path / "plain")


def test_a_stream_that_says_no_row_is_null_is_dropped(tmp_path: Path) -> None:
    """A writer may write it; the root of a plain file has none."""
    source = acid_source("struct<a:int>", [(n,) for n in range(16)])
    marked = _with_present(source, read_tail(source))
    assert list(pyorc.Reader(io.BytesIO(marked.read(0, marked.length))))[3][5] == (
        3,
    )  # another reader accepts the file
    _detached(marked, read_tail(marked), tmp_path / "plain")
    with open(tmp_path / "plain", "rb") as file:
        assert list(pyorc.Reader(file)) == [(n,) for n in range(16)]


def _with_present(source: BytesSource, tail: Tail) -> BytesSource:
    """Adds the stream of NULLs of ``row``, with no NULL among 16 rows, to an uncompressed copy of the only stripe."""
    footer = read_stripe_footer(source, tail, 0)
    data = plain_streams(source, tail, 0, footer, range(len(tail.types)))
    parts: list[tuple[messages.Message, bytes]] = [
        (messages.Stream(kind=stream.kind, column=stream.column, length=stream.length), stream.read())
        for stream in data
    ]
    parts.append((messages.Stream(kind=PRESENT, column=6, length=3), b"\xfe\xff\xff"))
    parts.sort(key=lambda part: part[0].column)
    new = messages.StripeFooter(streams=[part[0] for part in parts], columns=footer.columns)
    new.writer_timezone = footer.writer_timezone
    body, end = b"".join(part[1] for part in parts), new.SerializeToString()
    stripe = tail.stripes[0]._replace(offset=3, index_length=0, data_length=len(body), footer_length=len(end))
    whole = replace(tail, stripes=(stripe,), compression=Compression.NONE, content_length=3 + len(body) + len(end))
    return BytesSource(b"ORC" + body + end + tail_bytes(whole))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"compression": Compression.ZSTD}, "compression, file version and row index stride"),
        ({"row_index_stride": 0}, "cannot be copied"),
        ({"writer_version": 4}, "cannot be copied"),
    ],
)
def test_stripes_of_another_class_are_not_copied(
    tmp_path: Path, write_acid: WriteAcid, opened: Opened, changes: dict[str, Any], message: str
) -> None:
    source, tail = opened(write_acid(1, 10))
    with LocalSink(tmp_path / "plain") as sink:
        writer = PlainFileWriter(sink=sink, types=tail.types.row, like=tail)
        with pytest.raises(NotLossless, match=message):
            writer.copy(source, replace(tail, **changes), 0)


def test_columns_of_other_types_are_not_copied(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 10))
    with LocalSink(tmp_path / "plain") as sink:
        writer = PlainFileWriter(sink=sink, types=parse_hive_type("struct<id:int,name:string>"), like=tail)
        with pytest.raises(NotLossless, match="its rows are struct<id:bigint,name:string>"):
            writer.copy(source, tail, 0)


def test_stripes_of_two_files_share_a_file(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    files: Sequence[tuple[LocalSource, Tail]] = [opened(write_acid(1, 100)), opened(write_acid(2, 50, first=100))]
    with LocalSink(tmp_path / "plain") as sink:
        writer = PlainFileWriter(sink=sink, types=files[0][1].types.row, like=files[0][1])
        for source, tail in files:
            writer.copy(source, tail, 0)
        assert writer.close().rows == 150
    assert po.ORCFile(tmp_path / "plain").read().column("id").to_pylist() == list(range(150))


class _Taking(LocalSink):
    """A sink whose file system takes ranges over, behind ``padding`` bytes that nobody asked for."""

    padding = 0

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.taken: list[int] = []

    def take_over(self, source: Source, offset: int, length: int, *, whole: bool = False) -> int:
        self.write(bytes(self.padding))
        start = self.tell()
        self.copy(source, offset, length)
        self.taken.append(length)
        return start


def test_the_longest_range_of_a_stripe_is_taken_over(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 5000))
    with _Taking(tmp_path / "plain") as sink:
        writer = PlainFileWriter(sink=sink, types=tail.types.row, like=tail)
        writer.copy(source, tail, 0)
        writer.close()
    assert sink.taken[0] > 0.8 * tail.stripes[0].data_length
    assert len(sink.taken) == 1
    assert po.ORCFile(tmp_path / "plain").read().column("id").to_pylist() == list(range(tail.stripes[0].rows))


def test_padding_within_a_stripe_is_refused(tmp_path: Path, write_acid: WriteAcid, opened: Opened) -> None:
    source, tail = opened(write_acid(1, 10))
    with _Taking(tmp_path / "plain") as sink:
        sink.padding = 1
        writer = PlainFileWriter(sink=sink, types=tail.types.row, like=tail)
        with pytest.raises(NotLossless, match="please report this"):
            writer.copy(source, tail, 0)


class _Stored(BytesSource):
    """A file of an object store."""

    tag = "1"


def test_an_object_store_copies_ranges_itself(tmp_path: Path, write_acid: WriteAcid) -> None:
    content = write_acid(1, 60_000, compression="uncompressed").read_bytes()
    source = _Stored(content, "s3://b/bucket_00000")
    tail = read_tail(source)
    terms = TakingOver(smallest=1000)
    with NewFile(str(tmp_path / "plain"), terms=terms, place="s3://b") as sink:
        writer = PlainFileWriter(sink=sink, types=tail.types.row, like=tail)
        for number in range(len(tail.stripes)):
            writer.copy(source, tail, number)
        written = writer.close()
    assert len(sink.ranges) == len(tail.stripes)
    with sink.reading() as whole:
        (tmp_path / "whole").write_bytes(whole.read(0, whole.length))
    assert po.ORCFile(tmp_path / "whole").read().column("id").to_pylist() == list(range(60_000))
    assert sum(taken.length for taken in sink.ranges) > 0.9 * sum(stripe.length for stripe in written.stripes)


def test_blocks_are_shared(tmp_path: Path) -> None:
    """A stripe is placed so that the blocks of its longest range are those of the ACID file."""
    rows = [(0, 1, 1 << 29, n, 1, (n, random.Random(n).randbytes(1000))) for n in range(8000)]
    schema = schema_text(acid_types(parse_hive_type("struct<n:int,b:binary>")))
    with xfs(tmp_path, 400 << 20) as root:
        with open(root / "acid", "wb") as file, pyorc.Writer(file, schema, stripe_size=4 << 20) as writer:
            for row in rows:
                writer.write(row)
        os.sync()
        free = os.statvfs(root).f_bfree
        with LocalSource(root / "acid") as source, LocalSink(root / "plain", shares=1 << 20) as sink:
            tail = read_tail(source)
            plain = PlainFileWriter(sink=sink, types=tail.types.row, like=tail)
            for number in range(len(tail.stripes)):
                plain.copy(source, tail, number)
            assert len(plain.close().stripes) > 1
        os.sync()
        used = (free - os.statvfs(root).f_bfree) * os.statvfs(root).f_bsize
        assert used < (root / "plain").stat().st_size / 4
        with open(root / "plain", "rb") as file:
            assert list(pyorc.Reader(file)) == [row[5] for row in rows]


def test_smaller_integers_have_the_bytes_of_larger_ones(tmp_path: Path) -> None:
    source = acid_source("struct<a:smallint,b:int,c:bigint>", [(-32768, -(2**31), -(2**63)), (32767, 2**31 - 1, None)])
    _detached(source, read_tail(source), tmp_path / "plain", parse_hive_type("struct<a:int,b:bigint,c:bigint>"))
    with open(tmp_path / "plain", "rb") as file:
        assert list(pyorc.Reader(file)) == [(-32768, -(2**31), -(2**63)), (32767, 2**31 - 1, None)]
