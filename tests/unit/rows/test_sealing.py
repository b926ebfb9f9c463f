from __future__ import annotations

import zlib
from pathlib import Path

from compactor.acid.row_id import RowId
from compactor.ids import WriteId
from compactor.orc.source import LocalSource
from compactor.orc.tail import read_tail
from compactor.rows.sealing import seal_deletes, seal_rows
from tests.support.acid_files import FIRST_FILE, TYPES, dense, like, write_file


def test_metadata_is_computed_from_the_rows_that_stand_there(tmp_path: Path) -> None:
    """DESIGN 4: the key index has one exact entry per stripe."""
    path = write_file(tmp_path / "bucket_00000", dense(7, 3))
    with LocalSource(path) as source:
        tail = read_tail(source)
    written, last_keys = seal_rows(str(path), tail, like=like(), types=TYPES)
    assert last_keys == [RowId(WriteId(7), FIRST_FILE, 2)]
    assert (written.rows, written.stripes) == (3, 1)
    assert written.length == path.stat().st_size
    assert written.checksum == zlib.crc32(path.read_bytes())
    with LocalSource(path) as source:
        found = read_tail(source).user_metadata
    assert found["hive.acid.key.index"] == f"7,{FIRST_FILE},2;".encode()
    assert found["hive.acid.stats"] == b"3,0,0"
    assert found["hive.acid.version"] == b"2"


def test_deletes_count_as_such(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bucket_00000", dense(7, 3), operation=2)
    with LocalSource(path) as source:
        tail = read_tail(source)
    seal_deletes(str(path), tail, like=like(), types=TYPES)
    with LocalSource(path) as source:
        assert read_tail(source).user_metadata["hive.acid.stats"] == b"0,0,3"
