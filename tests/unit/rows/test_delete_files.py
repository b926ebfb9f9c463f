from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.orc as po
import pytest

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import NotLossless
from compactor.base.ids import WriteId
from compactor.rewrite.plan.unit import Input
from compactor.rows.delete_events import DeleteEvents
from compactor.rows.delete_files import load_events, write_events
from tests.support.acid_files import FIRST_FILE, TYPES, block, dense, like, write_file

SEEN = ValidWriteIdList(table="d.t", high_watermark=WriteId(6), aborted=frozenset({WriteId(5)}))


def given(tmp_path: Path, name: str) -> Input:
    return Input(path=name, length=(tmp_path / name).stat().st_size)


def test_events_of_all_files_that_the_snapshot_sees(tmp_path: Path) -> None:
    write_file(tmp_path / "d4" / "bucket_00000", dense(1, 2), current=[4, 4], operation=2)
    write_file(tmp_path / "d5" / "bucket_00000", dense(2, 2), current=[5, 6], operation=2)
    loaded = load_events(str(tmp_path), [given(tmp_path, f"d{n}/bucket_00000") for n in (5, 4)], 0, SEEN)
    assert (loaded.total, loaded.invisible) == (4, 1)
    assert [k.item() for k in loaded.events.keys] == [*dense(1, 2), (2, FIRST_FILE, 1)]
    assert loaded.events.current.tolist() == [4, 4, 6]
    assert len(loaded.tails) == 2


def test_written_events_are_read_back_and_look_like_hives(tmp_path: Path) -> None:
    keys = [(1, FIRST_FILE, 7), (1, FIRST_FILE, 9), (2, FIRST_FILE | 1, 0)]
    events = DeleteEvents.from_blocks([(block(keys[::-1]), np.array([6, 4, 4], dtype=np.int64))])
    path = tmp_path / "bucket_00000"
    written = write_events(events, str(path), like=like(), types=TYPES)
    assert (written.rows, written.length) == (3, path.stat().st_size)
    file = po.ORCFile(str(path))
    rows = file.read().to_pylist()
    assert [(r["operation"], r["originalTransaction"], r["bucket"], r["rowId"]) for r in rows] == [
        (2, *k) for k in keys
    ]
    assert [r["currentTransaction"] for r in rows] == [4, 4, 6]
    assert all(r["row"] is None for r in rows)
    assert file.file_version == "0.12"
    again = load_events(str(tmp_path), [given(tmp_path, "bucket_00000")], 0, SEEN)
    assert [k.item() for k in again.events.keys] == keys


def test_rows_in_a_delete_delta_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "bucket_00000", dense(1, 2))
    with pytest.raises(NotLossless, match=r"bucket_00000: expected delete events only"):
        load_events(str(tmp_path), [given(tmp_path, "bucket_00000")], 0, SEEN)


def test_without_files_there_are_no_events(tmp_path: Path) -> None:
    loaded = load_events(str(tmp_path), [], 0, SEEN)
    assert (len(loaded.events), loaded.total, loaded.tails, loaded.types) == (0, 0, (), None)
