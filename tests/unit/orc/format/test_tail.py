"""Tails of real files, of cut files and of garbage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.orc as po
import pyorc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.base.errors import BadFile
from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.tail import Tail, key_statistics, read_tail
from compactor.orc.io.source import BytesSource, LocalSource
from compactor.settings.file_limits import FileLimits
from tests.support import bombs
from tests.support.orc_files import acid_source
from tests.torture.anatomy import put_together, take_apart
from tests.torture.victims import rows_file

Opened = Callable[[Path], tuple[LocalSource, Tail]]
HIVE = Path("tests/fixtures/hive-4.1/g4_stripes")
TRINO = 4  #: as a file's writer; Hive is 0
ONE_FILE = next(p for p in sorted(HIVE.rglob("bucket_*")) if p.is_file())


def test_every_real_tail_agrees_with_two_other_readers(real_files: list[Path], opened: Opened) -> None:
    for path in real_files:
        _, tail = opened(path)
        arrow = po.ORCFile(str(path))
        sizes = arrow.nrows, arrow.nstripes, arrow.content_length
        assert (tail.rows, len(tail.stripes), tail.content_length) == sizes, path
        assert tail.row_index_stride == arrow.row_index_stride, path
        assert tail.calendar == (0 if tail.writer == TRINO else 1), path  # PROTOCOL 2.2
        assert tail.compression.name == ("NONE" if arrow.compression == "UNCOMPRESSED" else arrow.compression), path
        with open(path, "rb") as file:
            reader = pyorc.Reader(file)
            metadata = {name: bytes(value) for name, value in reader.user_metadata.items()}
            assert metadata == dict(tail.user_metadata), path
            stripes = [(stripe.bytes_offset, len(stripe)) for stripe in reader.iter_stripes()]
            assert [(stripe.offset, stripe.rows) for stripe in tail.stripes] == stripes, path
            assert len(tail.types[0].children) == len(reader.schema.fields), path


def test_key_statistics_of_a_real_file(opened: Opened) -> None:
    source, tail = opened(ONE_FILE)
    assert tail.is_acid
    first = 0
    for number in range(len(tail.stripes)):
        known = key_statistics(tail, number)
        assert known is not None
        keys = po.ORCFile(source.name).read_stripe(number, columns=["originalTransaction", "bucket", "rowId"])
        rows = keys.column("rowId").to_pylist()
        assert (known.row_id.minimum, known.row_id.maximum, known.row_id.total) == (min(rows), max(rows), sum(rows))
        assert known.original_transaction.minimum == min(keys.column("originalTransaction").to_pylist())
        assert known.bucket.maximum == max(keys.column("bucket").to_pylist())
        assert known.rows == len(rows)
        first += known.rows
    assert first == tail.rows


def test_statistics_of_0_rows_are_unusable(opened: Opened) -> None:
    """PROTOCOL 2.1: statistics from minor compactions of Hive 2.3 and 3.1 say 0 rows."""
    found = 0
    for path in sorted(Path("tests/fixtures/hive-3.1").rglob("bucket_*")):
        _, tail = opened(path)
        if tail.row_index_stride == 0 and tail.rows > 1:
            assert all(key_statistics(tail, number) is None for number in range(len(tail.stripes)))
            found += 1
    assert found > 10


@pytest.mark.parametrize("column", range(5))
@pytest.mark.parametrize("lacks", ["rows", "no null", "minimum", "maximum"])
def test_statistics_that_do_not_cover_every_key_are_unusable(opened: Opened, column: int, lacks: str) -> None:
    """PROTOCOL 2.1: statistics count only if those of each key column cover every row and have minimum and maximum."""
    _, tail = opened(ONE_FILE)
    assert tail.stripe_statistics is not None
    assert key_statistics(tail, 0) is not None
    columns = list(tail.stripe_statistics[0])
    part = messages.ColumnStatistics()
    part.CopyFrom(columns[1 + column])
    match lacks:
        case "rows":
            part.number_of_values -= 1
        case "no null":
            part.has_null = True
        case _:
            part.int_statistics.ClearField(lacks)
    columns[1 + column] = part
    assert key_statistics(replace(tail, stripe_statistics=(tuple(columns), *tail.stripe_statistics[1:])), 0) is None


def test_every_cut_is_a_bad_file() -> None:
    data = ONE_FILE.read_bytes()
    for end in [*range(200), *range(len(data) - 600, len(data))]:
        with pytest.raises(BadFile, match="f"):
            read_tail(BytesSource(data[:end], "f"))


def test_a_logical_length_is_where_the_file_ends() -> None:
    """Streaming writers keep a side file with the length up to which a file is complete."""
    data = ONE_FILE.read_bytes()
    tail = read_tail(BytesSource(data + b"half a stripe", "f"), len(data))
    assert (tail.length, tail.rows) == (len(data), read_tail(BytesSource(data)).rows)
    with pytest.raises(BadFile, match="truncated"):
        read_tail(BytesSource(data[:-1], "f"), len(data))


@pytest.mark.parametrize("data", [b"", b"ORC", b"\x00", b"\xff" * 300, b"PAR1" * 50, b"a,b\n1,2\n" * 100])
def test_a_file_that_is_not_orc_is_a_bad_file(data: bytes) -> None:
    with pytest.raises(BadFile, match="file f:"):
        read_tail(BytesSource(data, "f"))


@given(data=st.data())
def test_garbage_in_a_tail_is_a_bad_file_or_a_tail(data: st.DataObject) -> None:
    good = ONE_FILE.read_bytes()
    broken = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        broken[-data.draw(st.integers(1, 500))] = data.draw(st.integers(0, 255))
    try:
        tail = read_tail(BytesSource(bytes(broken), "f"))
    except BadFile as error:
        assert "file f" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert tail.rows == sum(stripe.rows for stripe in tail.stripes)
        assert schema_text(tail.types)


def test_an_unknown_compression_is_named() -> None:
    broken = ONE_FILE.read_bytes()
    script = broken[-1 - broken[-1] : -1]
    changed = script.replace(bytes([0x10, Compression.ZLIB]), bytes([0x10, 77]), 1)
    with pytest.raises(BadFile, match="compression 77 is unknown"):
        read_tail(BytesSource(broken[: -1 - len(script)] + changed + broken[-1:], "f"))


def test_a_missing_block_size_means_the_default() -> None:
    parts = take_apart(rows_file("ZLIB"))
    parts.script.ClearField("compression_block_size")
    assert read_tail(BytesSource(put_together(parts), "f")).compression_block_size == 256 * 1024


def test_an_unknown_file_version_is_named() -> None:
    """Encoders know no other versions; this once raised a ValueError."""
    parts = take_apart(rows_file("ZLIB"))
    parts.script.version.append(7)
    with pytest.raises(BadFile, match=r"file f: file version \[0, 12, 7\] is unknown"):
        read_tail(BytesSource(put_together(parts), "f"))


def test_a_stripe_has_no_more_rows_than_writers_count() -> None:
    with pytest.raises(BadFile, match="file f: stripe 0 claims 8589934592 rows, no writer makes more than"):
        read_tail(BytesSource(bombs.many_rows(), "f"))


def test_a_file_has_no_more_stripes_columns_and_bytes_than_its_source_allows() -> None:
    data = acid_source("struct<a:int>", [(1,)]).read(0, acid_source("struct<a:int>", [(1,)]).length)
    for limits, key in (
        (FileLimits(stripes=0), "compactor.file.stripes"),
        (FileLimits(columns=7), "compactor.file.columns"),
        (FileLimits(depth=2), "compactor.file.depth"),
        (FileLimits(footer_bytes=99), "compactor.file.footer.bytes"),
    ):
        with pytest.raises(BadFile, match=rf"file f: .*at most \d+ are read \({key}\)"):
            read_tail(BytesSource(data, "f", limits))
    assert read_tail(BytesSource(data, "f", FileLimits(stripes=1, columns=8, depth=3))).rows == 1
