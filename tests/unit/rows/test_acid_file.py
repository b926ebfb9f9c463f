from __future__ import annotations

import struct
import threading
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.acid import bucket
from compactor.base.errors import BadFile, NotLossless
from compactor.base.ids import WriteId
from compactor.orc.codecs import arrow_codec
from compactor.orc.format.stripe_footer import DATA_STREAMS, read_stripe_footer
from compactor.orc.format.tail import read_tail
from compactor.orc.io.look_ahead import WAIT_S
from compactor.orc.io.source import LocalSource
from compactor.rows.acid_file import check_only_rows, empty_acid_file, open_files, stripe_keys
from compactor.storage.local import LocalStorage
from tests.support.acid_files import FIRST_FILE, ROW_TYPE, dense, write_file, write_lying
from tests.support.patience import PATIENCE, until


@dataclass(frozen=True)
class Named:
    path: str
    write_id: WriteId = WriteId(0)
    statement_id: int | None = None
    group: str = ""
    has_flush_length: bool = False


def raw(path: Path, rows: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    po.write_table(pa.table({"a": pa.array(range(rows), pa.int32())}), str(path))


def test_encoded_keys_are_those_of_the_rows(tmp_path: Path) -> None:
    write_file(tmp_path / "d" / "bucket_00000", dense(3, 4), current=[3, 3, 4, 4])
    with open_files(str(tmp_path), [Named("d/bucket_00000")], 0) as (file,):
        assert not file.is_raw
        (found,) = stripe_keys(file, 0)
    assert [k.item() for k in found.block] == dense(3, 4)
    assert found.current.tolist() == [3, 3, 4, 4]


def test_reading_keys_decodes_no_row(tmp_path: Path) -> None:
    """PROTOCOL 2.1: only key columns are read. Here the streams of the rows are garbage."""
    path = write_file(tmp_path / "bucket_00000", dense(3, 1000))
    content = bytearray(path.read_bytes())
    with LocalSource(path) as source:
        tail = read_tail(source)
        place, garbled = tail.stripes[0].offset, 0
        for stream in read_stripe_footer(source, tail, 0).streams:
            if stream.column > 5 and stream.kind in DATA_STREAMS:
                content[place : place + stream.length] = b"\xff" * stream.length
                garbled += stream.length
            place += stream.length
    assert garbled
    path.write_bytes(content)
    with open_files(str(tmp_path), [Named("bucket_00000")], 0) as (file,):
        (found,) = stripe_keys(file, 0)
        assert [k.item() for k in found.block] == dense(3, 1000)
        with pytest.raises(BadFile, match="bucket_00000"):
            list(arrow_codec.read_batches(file.source, file.tail))


def test_row_numbers_of_originals_continue_across_the_files_of_a_group(tmp_path: Path) -> None:
    """Hive's OrcRawRecordMerger: 000000_0 and its copies are one sequence; a delta's LOAD DATA starts at 0 again."""
    raw(tmp_path / "000001_0", 3)
    raw(tmp_path / "000001_0_copy_1", 2)
    raw(tmp_path / "delta_0000005_0000005_0002" / "000001_0", 2)
    named = [
        Named("000001_0", group="originals"),
        Named("000001_0_copy_1", group="originals"),
        Named("delta_0000005_0000005_0002/000001_0", write_id=WriteId(5), statement_id=2, group="delta_5"),
    ]
    with open_files(str(tmp_path), named, 1) as files:
        found = [next(iter(stripe_keys(file, 0))).block for file in files]
        assert all(file.is_raw for file in files)
    assert [[k.item() for k in b] for b in found] == [
        [(0, bucket.encode(1), 0), (0, bucket.encode(1), 1), (0, bucket.encode(1), 2)],
        [(0, bucket.encode(1), 3), (0, bucket.encode(1), 4)],
        [(5, bucket.encode(1, 2), 0), (5, bucket.encode(1, 2), 1)],
    ]


def test_a_file_number_too_large_for_row_ids(tmp_path: Path) -> None:
    """The bucket in a synthetic ROW__ID has twelve bits; rows that have ROW__IDs need no synthetic ones."""
    write_file(tmp_path / "bucket_05000", dense(1, 3))
    with open_files(str(tmp_path), [Named("bucket_05000")], 5000) as (file,):
        assert [k.item() for k in next(iter(stripe_keys(file, 0))).block] == dense(1, 3)
    raw(tmp_path / "005000_0", 3)
    with (
        pytest.raises(NotLossless, match=r"005000_0: its rows have no ROW__IDs.* 0\.\.4095.*INSERT OVERWRITE"),
        open_files(str(tmp_path), [Named("005000_0", group="originals")], 5000),
    ):
        pass


def test_a_streaming_file_ends_at_its_flush_length(tmp_path: Path) -> None:
    path = write_file(tmp_path / "bucket_00000", dense(1, 5))
    length = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"half a stripe that is being written")
    side = tmp_path / "bucket_00000_flush_length"
    side.write_bytes(struct.pack(">qq", 7, length) + b"\x01")  # the last whole long counts
    with open_files(str(tmp_path), [Named("bucket_00000", has_flush_length=True)], 0) as (file,):
        assert file.tail.rows == 5
    side.write_bytes(b"")
    with open_files(str(tmp_path), [Named("bucket_00000", has_flush_length=True)], 0) as files:
        assert files == []  # nothing is flushed yet


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="gone"), open_files(str(tmp_path), [Named("d/bucket_00000")], 0):
        pass


@pytest.mark.parametrize(
    ("rows", "current", "name"),
    [
        (dense(3, 4), [3, 3, 9, 3], "currentTransaction"),
        ([(3, FIRST_FILE, 7)], None, "rowId"),
        (dense(2, 4), None, "orig"),
    ],
)
def test_keys_that_contradict_their_statistics_are_damage(
    tmp_path: Path, rows: list[tuple[int, int, int]], current: list[int] | None, name: str
) -> None:
    """DESIGN 8.7: a damaged write ID would make rows invisible, and compaction would silently leave them out."""
    write_file(tmp_path / "bucket_00000", rows, current=current or [3] * len(rows))
    write_file(tmp_path / "bucket_00001", dense(3, len(rows)), current=[3] * len(rows))
    with open_files(str(tmp_path), [Named("bucket_00000"), Named("bucket_00001")], 0) as (file, other):
        assert list(stripe_keys(file, 0))
        tail = replace(file.tail, stripe_statistics=other.tail.stripe_statistics)
        with pytest.raises(BadFile, match=f"bucket_00000, stripe 0: {name}.* its statistics say"):
            list(stripe_keys(file._replace(tail=tail), 0))


def test_row_numbers_with_another_sum_than_the_statistics_say_are_refused(tmp_path: Path) -> None:
    """PROTOCOL 2.1: a row number damaged within the range of the others hides one row behind another."""
    write_lying(tmp_path / "bucket_00000", [(1, FIRST_FILE, row) for row in (0, 1, 1, 3)], dense(1, 4))
    with (
        open_files(str(tmp_path), [Named("bucket_00000")], 0) as (file,),
        pytest.raises(
            BadFile, match=r"bucket_00000, stripe 0: rowId adds up to 5, its statistics say 6; .* is damaged"
        ),
    ):
        list(stripe_keys(file, 0))


def test_buckets_of_hive_2_are_read_and_unknown_ones_refused(tmp_path: Path) -> None:
    """PROTOCOL 1.7: files of Hive 2 are read if they have only one meaning; no writer uses other versions yet."""
    write_file(tmp_path / "bucket_00003", [(1, 3, 0), (1, 3, 1)])
    with open_files(str(tmp_path), [Named("bucket_00003")], 3) as (file,):
        (found,) = stripe_keys(file, 0)
        assert found.block["bucket"].tolist() == [3, 3]
    write_file(tmp_path / "bucket_00004", [(1, 1 << 30, 0)])
    with (
        open_files(str(tmp_path), [Named("bucket_00004")], 4) as (file,),
        pytest.raises(NotLossless, match=r"bucket_00004: bucket property 1073741824 is of an unknown version"),
    ):
        list(stripe_keys(file, 0))


@pytest.mark.parametrize(
    ("operation", "group", "fits"), [(1, "base_0000001", True), (1, "delta_1_1", False), (2, "base_0000001", False)]
)
def test_events_among_rows_are_refused(tmp_path: Path, operation: int, group: str, fits: bool) -> None:
    """A base holds only the newest update event, which is the row; in a delta of Hive 2 others apply to it."""
    write_file(tmp_path / "bucket_00000", [(1, FIRST_FILE, 0)], operation=operation)
    with open_files(str(tmp_path), [Named("bucket_00000", group=group)], 0) as (file,):
        (found,) = stripe_keys(file, 0)
        with nullcontext() if fits else pytest.raises(NotLossless, match="update or delete events among its rows"):
            assert check_only_rows(file, found) is found


def test_an_empty_file_is_an_acid_file_without_events(tmp_path: Path) -> None:
    """PROTOCOL 1.4: a file without rows remains if all rows were removed."""
    (tmp_path / "bucket_00000").write_bytes(empty_acid_file(ROW_TYPE))
    with LocalSource(tmp_path / "bucket_00000") as source:
        tail = read_tail(source)
    assert (tail.rows, tail.is_acid, tail.user_metadata["hive.acid.stats"]) == (0, True, b"0,0,0")
    assert po.ORCFile(str(tmp_path / "bucket_00000")).nrows == 0


class _Far(LocalStorage):
    """A store that takes its time: each file but the first is opened once ``together`` of them are being opened."""

    def __init__(self, together: int) -> None:
        super().__init__()
        self._met = threading.Barrier(together)
        self._lock = threading.Lock()
        self._asked = 0

    def descriptor(self, path: str) -> int | None:
        with self._lock:
            self._asked += 1
            first = self._asked == 1
        if first:
            until("the store counts as far", lambda began=time.monotonic(): time.monotonic() > began + 5 * WAIT_S)
        else:
            self._met.wait(PATIENCE)
        return super().descriptor(path)


def test_files_of_a_far_store_are_opened_side_by_side(tmp_path: Path) -> None:
    """Row numbers of raw files still go on from file to file, in the order of the files."""
    names = [f"d/{number:06d}_0" for number in range(9)]
    for number, name in enumerate(names):
        raw(tmp_path / name, number + 1)
    sources = [Named(name, group="originals") for name in names]
    with open_files(str(tmp_path), sources, 0, _Far(together=8)) as files:
        assert [Path(file.path).name for file in files] == [Path(name).name for name in names]
        assert [file.first_row_id for file in files] == [sum(range(1, number + 1)) for number in range(9)]
