from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pyorc
import pytest

from compactor.base.errors import NotLossless
from compactor.orc.format.compression import Compression
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.tail import MAGIC, Tail, empty_tail, read_tail
from compactor.orc.format.tail_writer import replace_tail, tail_bytes
from compactor.orc.io.source import BytesSource, LocalSource

TEXT = parse_hive_type("struct<a:int,b:string>")
VARCHAR = parse_hive_type("struct<a:int,B:varchar(5)>")


def encoded(path: Path, types: str = "struct<a:int,b:string>") -> Tail:
    """Writes three rows as a foreign encoder does."""
    with open(path, "wb") as file, pyorc.Writer(file, types, compression=pyorc.CompressionKind.ZLIB) as writer:
        writer.writerows([(1, "x"), (2, None), (3, "yy")])
    return read_tail(BytesSource(path.read_bytes()))


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZLIB, Compression.ZSTD])
def test_a_tail_is_read_as_it_was_written(compression: Compression) -> None:
    wanted = replace(
        empty_tail(VARCHAR, compression=compression, row_index_stride=500, calendar=2),
        user_metadata={"hive.acid.version": b"2", "raw": bytes(range(256))},
    )
    found = read_tail(BytesSource(MAGIC + tail_bytes(wanted)))
    assert (found.compression, found.row_index_stride, found.calendar) == (compression, 500, 2)
    assert (found.types, dict(found.user_metadata)) == (wanted.types, dict(wanted.user_metadata))
    assert (found.writer, found.writer_version, found.rows) == (wanted.writer, wanted.writer_version, 0)


def test_another_reader_accepts_the_file() -> None:
    reader = pyorc.Reader(io.BytesIO(MAGIC + tail_bytes(empty_tail(VARCHAR))))
    assert str(reader.schema) == schema_text(VARCHAR)
    assert len(reader) == 0


def test_file_statistics_are_those_of_the_stripes(tmp_path: Path) -> None:
    tail = encoded(tmp_path / "f")
    again = MAGIC + (tmp_path / "f").read_bytes()[len(MAGIC) : tail.content_length] + tail_bytes(tail)
    statistics = pyorc.Reader(io.BytesIO(again))[1].statistics
    assert (statistics["minimum"], statistics["maximum"], statistics["number_of_values"]) == (1, 3, 3)


def test_without_stripe_statistics_a_file_has_none(tmp_path: Path) -> None:
    """PROTOCOL 2.2: file statistics only if every stripe has them; readers would take those of some for all."""
    tail = replace(encoded(tmp_path / "f"), stripe_statistics=None)
    again = (tmp_path / "f").read_bytes()[: tail.stripes[-1].end] + tail_bytes(tail)
    found = read_tail(BytesSource(again))
    assert (found.rows, list(found.statistics), found.stripe_statistics) == (3, [], None)


def test_replacing_the_tail_changes_no_row(tmp_path: Path) -> None:
    """PROTOCOL 2.2: the footer has the wanted types, whatever types the encoder got."""
    path = tmp_path / "f"
    before = encoded(path)
    like = replace(before, calendar=2)
    rows = path.read_bytes()[: before.stripes[-1].end]
    found = replace_tail(path, like, VARCHAR, lambda *_: {"hive.acid.version": b"2"})
    assert path.read_bytes()[: before.stripes[-1].end] == rows
    assert (found.types, found.calendar, found.rows) == (VARCHAR, 2, 3)
    assert found == replace(read_tail(LocalSource(path)), name=found.name)
    with open(path, "rb") as file:
        reader = pyorc.Reader(file)
        assert (str(reader.schema), list(reader)) == (schema_text(VARCHAR), [(1, "x"), (2, None), (3, "yy")])
        assert reader.user_metadata == {"hive.acid.version": b"2"}


def test_an_encoder_that_wrote_something_else_is_caught(tmp_path: Path) -> None:
    tail = encoded(tmp_path / "f")
    with pytest.raises(NotLossless, match="nothing was kept"):
        replace_tail(tmp_path / "f", tail, parse_hive_type("struct<a:bigint,b:string>"))
    with pytest.raises(NotLossless, match="row index stride"):
        replace_tail(tmp_path / "f", replace(tail, row_index_stride=7), TEXT)
    assert read_tail(BytesSource((tmp_path / "f").read_bytes())) == tail
