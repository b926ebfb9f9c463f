from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.orc as po
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import NotLossless
from compactor.base.ids import WriteId
from compactor.rewrite.plan.unit import Input
from compactor.rows.delete_files import DeleteEvents, load_events, write_events
from tests.support.acid_files import FIRST_FILE, TYPES, Key, block, dense, like, write_file

SEEN = ValidWriteIdList(table="d.t", high_watermark=WriteId(6), aborted=frozenset({WriteId(5)}))
KEYS = st.tuples(st.integers(0, 4), st.sampled_from([1 << 29, 1 << 29 | 1, 1 << 29 | 1 << 16]), st.integers(0, 6))
EVENTS = st.lists(st.lists(KEYS, max_size=8), max_size=4)


def write_events_file(tmp_path: Path, name: str) -> Input:
    return Input(path=name, length=(tmp_path / name).stat().st_size)


def test_events_of_all_files_that_the_snapshot_sees(tmp_path: Path) -> None:
    write_file(tmp_path / "d4" / "bucket_00000", dense(1, 2), current=[4, 4], operation=2)
    write_file(tmp_path / "d5" / "bucket_00000", dense(2, 2), current=[5, 6], operation=2)
    loaded = load_events(str(tmp_path), [write_events_file(tmp_path, f"d{n}/bucket_00000") for n in (5, 4)], 0, SEEN)
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
    again = load_events(str(tmp_path), [write_events_file(tmp_path, "bucket_00000")], 0, SEEN)
    assert [k.item() for k in again.events.keys] == keys


def test_rows_in_a_delete_delta_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "bucket_00000", dense(1, 2))
    with pytest.raises(NotLossless, match=r"bucket_00000: expected delete events only"):
        load_events(str(tmp_path), [write_events_file(tmp_path, "bucket_00000")], 0, SEEN)


def test_without_files_there_are_no_events(tmp_path: Path) -> None:
    loaded = load_events(str(tmp_path), [], 0, SEEN)
    assert (len(loaded.events), loaded.total, loaded.tails, loaded.types) == (0, 0, (), None)


def events(blocks: list[list[Key]]) -> DeleteEvents:
    return DeleteEvents.from_blocks((block(keys), np.arange(len(keys), dtype=np.int64)) for keys in blocks)


def flat(blocks: list[list[Key]]) -> list[Key]:
    return [key for keys in blocks for key in keys]


@given(EVENTS, st.lists(KEYS, max_size=20))
def test_hits_are_membership(blocks: list[list[Key]], rows: list[Key]) -> None:
    gone = set(flat(blocks))
    assert events(blocks).hits(block(rows)).tolist() == [row in gone for row in rows]


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99), min_size=1))
def test_hits_among_the_rows_of_one_statement(gone: set[int], rows: set[int]) -> None:
    found = events([[(3, 1 << 29, row) for row in gone], [(2, 1 << 29, 1), (3, 1 << 29 | 1, 1)]])
    assert found.hits(block([(3, 1 << 29, row) for row in sorted(rows)])).tolist() == [r in gone for r in sorted(rows)]


@given(EVENTS, KEYS, KEYS)
def test_any_between_is_inclusive(blocks: list[list[Key]], a: Key, b: Key) -> None:
    low, high = sorted((a, b))
    found = events(blocks).any_between(*(RowId(WriteId(w), bucket, row) for w, bucket, row in (low, high)))
    assert found == any(low <= key <= high for key in flat(blocks))


@given(EVENTS, KEYS, st.integers(0, 99))
def test_row_ids_are_those_of_one_statement(blocks: list[list[Key]], first: Key, more: int) -> None:
    low = RowId(WriteId(first[0]), *first[1:])
    high = low._replace(row_id=low.row_id + more)
    assert events(blocks).row_ids(low, high).tolist() == sorted(k[2] for k in flat(blocks) if low <= k <= high)


@given(EVENTS)
def test_all_events_are_kept_each_with_its_deleting_write_id(blocks: list[list[Key]]) -> None:
    found = events(blocks)
    wanted = [(key, number) for keys in blocks for number, key in enumerate(keys)]
    assert sorted((k.item(), int(c)) for k, c in zip(found.keys, found.current, strict=True)) == sorted(wanted)
    assert [k.item() for k in found.keys] == sorted(flat(blocks))


def test_no_events_hit_nothing() -> None:
    assert not DeleteEvents.from_blocks(()).hits(block([(1, 1 << 29, 0)])).any()
    assert events([[(1, 1 << 29, 0)]]).hits(block([])).tolist() == []
