from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.acid import bucket
from compactor.base.errors import StorageError
from compactor.base.ids import WriteId
from compactor.orc.format.compression import Compression
from demo.delta_writer import write_deletes, write_rows

ROW = "struct<a:int,b:string>"


def test_rows_as_hive_writes_them(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array([5, None], pa.int32()), "b": ["x", None]})
    written = write_rows(str(tmp_path), ROW, rows, write_id=WriteId(9), statement_id=2, number=3)
    folder = tmp_path / "delta_0000009_0000009_0002"
    assert (folder / "_orc_acid_version").read_bytes() == b"2"
    file = po.ORCFile(str(folder / "bucket_00003"))
    assert written.rows == file.nrows == 2
    assert file.metadata[b"hive.acid.stats"] == b"2,0,0"
    assert file.read().to_pylist() == [
        {
            "operation": 0,
            "originalTransaction": 9,
            "bucket": bucket.encode(3, 2),
            "rowId": number,
            "currentTransaction": 9,
            "row": row,
        }
        for number, row in enumerate([{"a": 5, "b": "x"}, {"a": None, "b": None}])
    ]


def test_rows_of_another_codec(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array([5], pa.int32()), "b": ["x"]})
    none = Compression.NONE
    write_rows(str(tmp_path), ROW, rows, write_id=WriteId(9), statement_id=0, compression=none)
    file = po.ORCFile(str(tmp_path / "delta_0000009_0000009_0000" / "bucket_00000"))
    assert (file.compression, file.nrows) == ("UNCOMPRESSED", 1)


def test_deletes_name_rows_and_hold_none(tmp_path: Path) -> None:
    ids = pa.table({"writeid": [4, 2], "bucketid": [bucket.encode(1)] * 2, "rowid": [0, 8], "more": ["x", "y"]})
    write_deletes(str(tmp_path), ROW, ids, write_id=WriteId(9), statement_id=0, number=1)
    file = po.ORCFile(str(tmp_path / "delete_delta_0000009_0000009_0000" / "bucket_00001"))
    rows = file.read().to_pylist()
    assert [(r["operation"], r["originalTransaction"], r["rowId"], r["currentTransaction"]) for r in rows] == [
        (2, 2, 8, 9),
        (2, 4, 0, 9),
    ]
    assert {r["row"] for r in rows} == {None}


def test_a_directory_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(b"")
    rows = pa.table({"a": pa.array([5], pa.int32()), "b": ["x"]})
    with pytest.raises(StorageError, match="delta_0000001_0000001_0000: cannot be created"):
        write_rows(str(tmp_path / "t"), ROW, rows, write_id=WriteId(1), statement_id=0)


def test_a_file_is_written_once(tmp_path: Path) -> None:
    """PROTOCOL 11.12: with a metastore that is older than its files, the name may already be taken."""
    rows = pa.table({"a": pa.array([5], pa.int32()), "b": ["x"]})
    first = write_rows(str(tmp_path), ROW, rows, write_id=WriteId(1), statement_id=0)
    with pytest.raises(StorageError, match="bucket_00000 exists already"):
        write_rows(str(tmp_path), ROW, rows, write_id=WriteId(1), statement_id=0)
    assert write_rows(str(tmp_path), ROW, rows, write_id=WriteId(1), statement_id=0, number=1).rows == first.rows
