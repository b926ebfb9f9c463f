"""Delete events in memory and on disk against a model of sorted tuples."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import NotLossless
from compactor.base.ids import WriteId
from compactor.rewrite.full_acid import delete_events
from compactor.rewrite.full_acid.delete_events import SortedEvents, load_delete_events
from compactor.rows.delete_files import DeleteEvents, write_events
from compactor.rows.inputs import Input
from compactor.rows.keys import KEY
from tests.support.acid_files import FIRST_FILE, TYPES, Key, block, dense, like, write_file
from tests.support.sizes import sized

SEEN = ValidWriteIdList(table="d.t", high_watermark=WriteId(6), aborted=frozenset({WriteId(5)}))
KEYS = st.tuples(st.integers(0, 4), st.sampled_from([1 << 29, 1 << 29 | 1]), st.integers(0, 9))
FILES = st.lists(st.lists(KEYS, max_size=12), max_size=6)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits memory to four events, merges to two runs, blocks to two events."""
    monkeypatch.setattr(delete_events, "RUN", 4)
    monkeypatch.setattr(delete_events, "FAN_IN", 2)
    monkeypatch.setattr(delete_events, "BLOCK", 2)


def loaded(tmp_path: Path, files: list[list[Key]]) -> SortedEvents:
    """Loads the files' events; each event has its file's number as its write ID."""
    sorter = delete_events.EventSorter(str(tmp_path))
    for number, keys in enumerate(files):
        sorter.add(delete_events.pack_events(block(keys), np.full(len(keys), number)))
    return sorter.finish()


def everything(found: SortedEvents) -> list[tuple[Key, int]]:
    part = found.part(0, len(found))
    return list(zip((k.item() for k in part.keys), part.current.tolist(), strict=True))


@pytest.mark.usefixtures("tiny")
def test_a_name_that_somebody_has_taken_in_the_scratch_folder_does_not_matter(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"events.{number}").touch()
    assert len(loaded(tmp_path, [[(1, 1 << 29, row) for row in range(20)]])) == 20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(files=FILES, rows=st.lists(KEYS, max_size=20), a=KEYS, b=KEYS, first=st.integers(0, 5))
@pytest.mark.usefixtures("tiny")
def test_answers_equal_those_of_a_set_for_any_number_of_events(
    tmp_path: Path, files: list[list[Key]], rows: list[Key], a: Key, b: Key, first: int
) -> None:
    wanted = sorted((key, number) for number, keys in enumerate(files) for key in keys)
    found = loaded(tmp_path, files)
    assert os.listdir(tmp_path) == []
    assert [key for key, _ in everything(found)] == [key for key, _ in wanted]
    assert sorted(everything(found)) == wanted
    halves = [sorted(e for e in wanted if e[0][0] < first), sorted(e for e in wanted if e[0][0] >= first)]
    for part, inside in zip((found, *found.split(WriteId(first))), (wanted, *halves), strict=True):
        assert sorted(everything(part)) == inside
        gone = {key for key, _ in inside}
        assert part.hits(block(rows)).tolist() == [row in gone for row in rows]
        low, high = (RowId(WriteId(w), bucket, row) for w, bucket, row in sorted((a, b)))
        assert part.any_between(low, high) == any(low <= key <= high for key in gone)
        high = low._replace(row_id=high.row_id)
        assert part.row_ids(low, high).tolist() == [key[2] for key, _ in inside if low <= key <= high]


def test_events_of_all_files_that_the_snapshot_sees(tmp_path: Path) -> None:
    write_file(tmp_path / "d4" / "bucket_00000", dense(1, 2), current=[4, 4], operation=2)
    write_file(tmp_path / "d5" / "bucket_00000", dense(2, 2), current=[5, 6], operation=2)
    inputs = [Input(path=f"d{n}/bucket_00000", length=0) for n in (5, 4)]
    found = load_delete_events(str(tmp_path), inputs, 0, SEEN, str(tmp_path))
    assert (found.total, found.invisible, found.types) == (4, 1, TYPES)
    assert everything(found.events) == [((1, FIRST_FILE, 0), 4), ((1, FIRST_FILE, 1), 4), ((2, FIRST_FILE, 1), 6)]
    assert found.like is not None
    assert found.like.name.endswith("d5/bucket_00000")


def test_no_files_have_no_events(tmp_path: Path) -> None:
    found = load_delete_events(str(tmp_path), [], 0, SEEN, str(tmp_path))
    assert (len(found.events), found.total, found.like, found.types) == (0, 0, None, None)
    assert not found.events.any_between(RowId(WriteId(0), 0, 0), RowId(WriteId(9), 0, 0))


def test_rows_in_a_delete_delta_are_refused(tmp_path: Path) -> None:
    write_file(tmp_path / "bucket_00000", dense(1, 2))
    with pytest.raises(NotLossless, match=r"bucket_00000: expected delete events only"):
        load_delete_events(str(tmp_path), [Input(path="bucket_00000", length=0)], 0, SEEN, str(tmp_path))


@pytest.mark.usefixtures("tiny")
def test_files_are_opened_one_at_a_time_and_closed(tmp_path: Path) -> None:
    """No number of delete deltas reaches the limit of open files."""
    inputs = []
    for number in range(20):
        write_file(
            tmp_path / f"d{number}" / "bucket_00000", dense(1, 3, first=3 * number), current=[4] * 3, operation=2
        )
        inputs.append(Input(path=f"d{number}/bucket_00000", length=0))
    before = len(os.listdir("/proc/self/fd"))
    found = load_delete_events(str(tmp_path), inputs, 0, SEEN, str(tmp_path))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    assert [k for k, _ in everything(found.events)] == dense(1, 60)
    del found
    assert len(os.listdir("/proc/self/fd")) == before


_CHILD = """
import sys, uuid
from pathlib import Path
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.rewrite.plan.unit import Shape, Unit
from compactor.rows.inputs import Input
from tests.support.units import execute
from tests.support.folders import staging_of

root = Path(sys.argv[1])
files = sorted(root.glob("d*/bucket*"))
inputs = [Input(path=str(path.relative_to(root)), length=path.stat().st_size) for path in files]
result = execute(Unit(
    location=str(root), staging=staging_of(root, f"s{uuid.uuid4().hex}"), number=0, shape=Shape.MINOR,
    inserts=tuple(i for i in inputs if i.path.startswith("delta")),
    deletes=tuple(i for i in inputs if i.path.startswith("delete")),
    write_ids=ValidWriteIdList(table="d.t", high_watermark=WriteId(9999)),
    first_write_id=WriteId(2), row_type="struct<a:int>",
))
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(result.figures.events_out, result.figures.rows_deleted, status["VmHWM"].split()[0])
"""


def _measured(root: Path) -> Iterator[int]:
    done = subprocess.run([sys.executable, "-c", _CHILD, str(root)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return iter(map(int, done.stdout.split()))


def _scattered(folder: Path, number: int) -> None:
    """Delete events for every fiftieth of 5 million rows of write ID 1, and one row of write ID 2."""
    folder.mkdir(exist_ok=True)
    keys = np.empty(100_001, KEY)
    keys["write_id"], keys["bucket"], keys["row_id"] = 1, FIRST_FILE, np.arange(100_001) * 50 + number
    keys[-1] = (2, FIRST_FILE, number)
    deletes = DeleteEvents(keys=keys, current=np.full(len(keys), 3))
    write_events(deletes, str(folder / "bucket_00000"), like=like(), types=TYPES)


def test_memory_does_not_grow_with_the_number_of_delete_keys(tmp_path: Path) -> None:
    """PROTOCOL 2.4: five times as many delete events need the same memory; they interleave between delete deltas."""
    write_file(tmp_path / "delta_2" / "bucket_00000", dense(2, 50_000))
    peaks = []
    for files in sized(short=(5, 25), whole=(10, 50)):
        for number in range(files):
            _scattered(tmp_path / f"delete_delta_{number}", number)
        kept, gone, peak = _measured(tmp_path)
        assert (kept, gone) == (files * 100_000, files)
        peaks.append(peak)
    # 2 million more keys would be 56 MB in the smallest form; kilobytes
    assert peaks[1] - peaks[0] < 40_000
