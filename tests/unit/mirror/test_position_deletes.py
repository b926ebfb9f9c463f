"""Positions of deleted rows, and the files that hold them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from compactor.base.errors import BadFile
from compactor.mirror.position_deletes import (
    delete_file_entry,
    deleted_positions,
    read_deleted_positions,
    write_position_deletes,
)
from compactor.mirror.visible_rows import KeyRun
from compactor.rewrite.full_acid.delete_events import EventSorter, SortedEvents, pack_events
from compactor.storage.local import LocalStorage
from tests.support.acid_files import block
from tests.support.detached import FIRST_FILE, SmallTable

_OTHER = FIRST_FILE + 1


def _events(*keys: tuple[int, int, int]) -> SortedEvents:
    sorter = EventSorter("/nowhere")
    sorter.add(pack_events(block(keys), np.full(len(keys), 9)))
    return sorter.finish()


def test_positions_follow_from_runs() -> None:
    keys = (KeyRun(10, 1, FIRST_FILE, 100), KeyRun(5, 2, FIRST_FILE, 0), KeyRun(3, 2, _OTHER, 0))
    events = _events(
        (1, FIRST_FILE, 99),
        (1, FIRST_FILE, 100),
        (1, FIRST_FILE, 109),
        (1, FIRST_FILE, 110),
        (2, FIRST_FILE, 4),
        (2, _OTHER, 2),
        (2, _OTHER, 2),  # deleted twice
        (3, FIRST_FILE, 0),
    )
    assert deleted_positions(keys, events).tolist() == [0, 9, 14, 17]


def test_no_event_hits_no_row() -> None:
    keys = (KeyRun(10, 1, FIRST_FILE, 0),)
    assert deleted_positions(keys, _events()).tolist() == []
    assert deleted_positions(keys, _events((2, FIRST_FILE, 0))).tolist() == []
    assert deleted_positions((), _events((1, FIRST_FILE, 0))).tolist() == []


def test_many_events_and_runs_give_the_rows_that_a_reader_hides() -> None:
    random = np.random.default_rng(44)
    runs = [
        KeyRun(int(rows), n // 3, FIRST_FILE + n % 3, 1000 * n) for n, rows in enumerate(random.integers(1, 9, 300))
    ]
    keys = [(run.write_id, run.bucket, run.first_row_id + at) for run in runs for at in range(run.rows)]
    chosen = sorted(random.choice(len(keys), 200, replace=False).tolist())
    events = _events(*(keys[place] for place in chosen), *((500, FIRST_FILE, n) for n in range(50)))
    assert deleted_positions(runs, events).tolist() == chosen


def test_keys_are_read_where_they_are_not_known(tmp_path: Path) -> None:
    """PROTOCOL 15.7: rows of aborted writes have no position."""
    small = SmallTable(root=tmp_path / "t", row_type="struct<id:int>", aborted=frozenset({2}))
    keys = [(write_id, FIRST_FILE, 2 * row) for write_id in (1, 2, 3) for row in range(5)]
    source = small.write_keyed(keys, [(n,) for n in range(15)])
    events = _events((1, FIRST_FILE, 2), (2, FIRST_FILE, 0), (3, FIRST_FILE, 8))
    positions = read_deleted_positions(small.plan, small.task, source, events, LocalStorage(), rows=10)
    assert positions.tolist() == [1, 9]
    assert small.read([small.detach()], deleted=positions.tolist()) == [(n,) for n in (0, 2, 3, 4, 10, 11, 12, 13)]
    with pytest.raises(
        BadFile, match="the snapshot sees 10 rows of it, its data file has 15; write the data file again"
    ):
        read_deleted_positions(small.plan, small.task, source, events, LocalStorage(), rows=15)


def test_a_file_of_deletes_is_as_iceberg_wants_it(tmp_path: Path) -> None:
    uri = "file:///data/one.orc"
    written = write_position_deletes(LocalStorage(), str(tmp_path / "x.parquet"), uri, np.array([1, 5, 7]))
    assert (written.rows, written.length) == (3, (tmp_path / "x.parquet").stat().st_size)
    file = pq.ParquetFile(tmp_path / "x.parquet")
    assert file.read().to_pydict() == {"file_path": [uri] * 3, "pos": [1, 5, 7]}
    columns = [(field.name, field.nullable, field.metadata[b"PARQUET:field_id"]) for field in file.schema_arrow]
    assert columns == [("file_path", False, b"2147483546"), ("pos", False, b"2147483545")]
    entry = delete_file_entry(written, "file:///data/x.parquet", Record(), 0)
    assert (entry.content, entry.file_format) == (DataFileContent.POSITION_DELETES, FileFormat.PARQUET)
    assert entry.lower_bounds == entry.upper_bounds == {2147483546: uri.encode()}


def test_a_taken_name_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"other")
    with pytest.raises(FileExistsError):
        write_position_deletes(LocalStorage(), str(tmp_path / "x.parquet"), "file:///one.orc", np.array([1]))
    assert (tmp_path / "x.parquet").read_bytes() == b"other"
