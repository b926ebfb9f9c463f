from __future__ import annotations

import zlib
from pathlib import Path

from compactor.acid.row_id import RowId
from compactor.base.ids import WriteId
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import LocalSource
from compactor.rows.output_metadata import OutputMetadata, written_file
from tests.support.acid_files import FIRST_FILE, dense, write_file


def _tail(path: Path) -> Tail:
    with LocalSource(path) as source:
        return read_tail(source)


def test_metadata_is_computed_from_the_rows(tmp_path: Path) -> None:
    """DESIGN 4: the key index has one exact entry per stripe."""
    path = write_file(tmp_path / "bucket_00000", [*dense(7, 2), *dense(9, 3)])
    output_metadata = OutputMetadata()
    with LocalSource(path) as source:
        metadata = output_metadata.compute(source, _tail(path), None)
    assert output_metadata.last_keys == [RowId(WriteId(9), FIRST_FILE, 2)]
    assert metadata == {
        "hive.acid.key.index": f"9,{FIRST_FILE},2;".encode(),
        "hive.acid.stats": b"5,0,0",
        "hive.acid.version": b"2",
    }
    assert _tail(path).user_metadata == metadata


def test_a_known_last_key_is_not_read_again(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bucket_00000", dense(7, 3))
    known = RowId(WriteId(8), FIRST_FILE, 5)
    output_metadata = OutputMetadata(version=None)
    with LocalSource(path) as source:
        metadata = output_metadata.compute(source, _tail(path), known)
    assert output_metadata.last_keys == [known]
    assert metadata == {"hive.acid.key.index": f"8,{FIRST_FILE},5;".encode(), "hive.acid.stats": b"3,0,0"}


def test_deletes_are_counted_as_deletes(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bucket_00000", dense(7, 3), operation=2)
    assert _tail(path).user_metadata["hive.acid.stats"] == b"0,0,3"


def test_what_was_written(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bucket_00000", dense(7, 3))
    found = written_file(str(path), _tail(path))
    assert (found.rows, found.stripes) == (3, 1)
    assert (found.length, found.checksum) == (path.stat().st_size, zlib.crc32(path.read_bytes()))
