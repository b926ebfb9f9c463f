from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest
from pyorc.converters import ORCConverter

from compactor.acid import bucket
from compactor.acid.bucket import RowId
from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import NotLossless
from compactor.base.ids import TxnId, WriteId
from compactor.storage.local import LocalStorage
from demo.delta_writer import write_deletes, write_rows
from demo.fixtures import read_step
from demo.snapshot_reader import read_snapshot
from tests.support.expected import difference, plain_rows, read_expected, render_line, step_id, steps

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


class Seconds(ORCConverter):
    @staticmethod
    def to_orc(value: int, timezone: object) -> tuple[int, int]:
        return value, 0

    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: object) -> int:
        raise AssertionError("nothing is read")


def test_a_snapshot_shows_what_it_sees(tmp_path: Path) -> None:
    put(tmp_path, 1, [10, 11])
    drop(tmp_path, 2, of=1, row=0)
    put(tmp_path, 3, [30])
    assert [r["a"] for r in read(tmp_path, 1)] == [10, 11]
    assert [r["a"] for r in read(tmp_path, 2)] == [11]
    assert [r["a"] for r in read(tmp_path, 3)] == [11, 30]
    assert [r["a"] for r in read(tmp_path, 3, aborted={2})] == [10, 11, 30]
    assert read(tmp_path, 3)[1] == {"writeid": 3, "bucketid": bucket.encode(0), "rowid": 0, "a": 30}


def test_an_event_of_another_file_number_has_no_effect(tmp_path: Path) -> None:
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


def test_an_empty_directory_has_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path, 5) == []


def test_a_stripe_is_read_in_batches_even_if_the_codec_changes(tmp_path: Path) -> None:
    """PROTOCOL 2.4: at most a batch in memory; a timestamp of the year 9999 late in a stripe does not repeat rows."""
    rows, late = 150_000, 253_402_300_799
    folder = tmp_path / "delta_0000001_0000001_0000"
    folder.mkdir()
    schema = "struct<operation:int,originalTransaction:bigint,bucket:int,rowId:bigint,currentTransaction:bigint,row:{}>"
    with (
        (folder / "bucket_00000").open("wb") as file,
        pyorc.Writer(
            file, schema.format("struct<t:timestamp>"), converters={pyorc.TypeKind.TIMESTAMP: Seconds}
        ) as writer,
    ):
        for n in range(rows):
            writer.write((0, 1, bucket.encode(0), n, 1, (n if n < rows - 1 else late,)))
    write_ids = ValidWriteIdList(table="default.t", high_watermark=WriteId(1))
    txns = ValidTxnList(high_watermark=TxnId(1))
    directory = acid_directory(LocalStorage().listing(str(tmp_path)), write_ids, txns)
    batches = list(read_snapshot(str(tmp_path), directory, write_ids, "struct<t:timestamp>"))
    assert [n for batch in batches for n in batch.column(2).to_pylist()] == list(range(rows))
    assert max(batch.num_rows for batch in batches) < rows
    assert batches[-1].column(3).to_pylist()[-1] == {"seconds": late, "nanos": 0}


@pytest.mark.parametrize("path", steps("hive-2.3"), ids=step_id)
def test_files_of_hive_2_are_shown_or_refused_by_name(path: Path) -> None:
    """PROTOCOL 1.7: split-update rows and deletes, and every base, have one meaning; events among rows do not."""
    fixture = read_step(path)
    assert fixture.directory is not None
    expected = read_expected(path)
    names = [f"{name}:{kind}" for name, kind in fixture.description.columns]
    ids = ValidWriteIdList(table="d.t", high_watermark=WriteId(99))
    directory = acid_directory(LocalStorage().listing(str(fixture.directory)), ids, ALL_TXNS)

    def found() -> list[tuple[RowId, str]]:
        lines = []
        for batch in read_snapshot(str(fixture.directory), directory, ids, f"struct<{','.join(names)}>"):
            for write_id, bucket_property, row_id, *row in plain_rows(batch):
                lines.append((RowId(WriteId(write_id), bucket_property, row_id), render_line(expected, row)))
        return sorted(lines)

    if step_id(path) in ("hive-2.3/f7_v1/s1_dml", "hive-2.3/f7_v1/s2_minor"):
        with pytest.raises(NotLossless, match="has update or delete events among its rows"):
            found()
    else:
        assert difference(expected.row_ids, found()) == ""
