from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po

from compactor.acid import bucket
from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.ids import TxnId, WriteId
from compactor.rows.reader import read_snapshot
from compactor.rows.writer import write_deletes, write_rows
from compactor.storage.local import LocalStorage

ROW = "struct<a:int>"
ALL_TXNS = ValidTxnList(high_watermark=TxnId(99))


def put(tmp_path: Path, write_id: int, values: list[int], number: int = 0) -> None:
    rows = pa.table({"a": pa.array(values, pa.int32())})
    write_rows(str(tmp_path), ROW, rows, write_id=WriteId(write_id), statement_id=0, number=number)


def drop(tmp_path: Path, write_id: int, of: int, row: int, number: int = 0) -> None:
    ids = pa.table({"writeid": [of], "bucketid": [bucket.encode(0)], "rowid": [row]})
    write_deletes(str(tmp_path), ROW, ids, write_id=WriteId(write_id), statement_id=0, number=number)


def read(tmp_path: Path, high: int, row_type: str = ROW, aborted: set[int] | None = None) -> list[dict[str, Any]]:
    ids = ValidWriteIdList(
        table="d.t", high_watermark=WriteId(high), aborted=frozenset(WriteId(a) for a in aborted or ())
    )
    directory = acid_directory(LocalStorage().listing(str(tmp_path)), ids, ALL_TXNS)
    return [row for batch in read_snapshot(str(tmp_path), directory, ids, row_type) for row in batch.to_pylist()]


def test_a_snapshot_shows_what_it_sees(tmp_path: Path) -> None:
    put(tmp_path, 1, [10, 11])
    drop(tmp_path, 2, of=1, row=0)
    put(tmp_path, 3, [30])
    assert [r["a"] for r in read(tmp_path, 1)] == [10, 11]
    assert [r["a"] for r in read(tmp_path, 2)] == [11]
    assert [r["a"] for r in read(tmp_path, 3)] == [11, 30]
    assert [r["a"] for r in read(tmp_path, 3, aborted={2})] == [10, 11, 30]
    assert read(tmp_path, 3)[1] == {"writeid": 3, "bucketid": bucket.encode(0), "rowid": 0, "a": 30}


def test_an_event_of_another_file_number_is_dead(tmp_path: Path) -> None:
    """PROTOCOL 1.3."""
    put(tmp_path, 1, [10, 11])
    drop(tmp_path, 2, of=1, row=0, number=1)
    assert [r["a"] for r in read(tmp_path, 2)] == [10, 11]


def test_a_column_that_came_later_is_null_in_older_files(tmp_path: Path) -> None:
    put(tmp_path, 1, [10])
    assert [(r["a"], r["b"]) for r in read(tmp_path, 1, "struct<a:int,b:string>")] == [(10, None)]


def test_originals_get_their_row_ids(tmp_path: Path) -> None:
    po.write_table(pa.table({"a": pa.array([7, 8], pa.int32())}), str(tmp_path / "000002_0"))
    assert read(tmp_path, 1) == [
        {"writeid": 0, "bucketid": bucket.encode(2), "rowid": row, "a": 7 + row} for row in (0, 1)
    ]


def test_nothing_there_shows_nothing(tmp_path: Path) -> None:
    assert read(tmp_path, 5) == []
