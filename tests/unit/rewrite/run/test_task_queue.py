from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, UnforeseenKeys
from compactor.rewrite.full_acid.split import EncodeTask
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.run.execute import attempt_task
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rewrite.run.task_queue import ENCODED_SHARE, PARCEL_BYTES, PARCEL_UNITS, Job, TaskQueue
from compactor.rows.inputs import Input
from tests.support.acid_files import FIRST_FILE, dense, write_file
from tests.support.split_units import WHOLE, content, large_unit
from tests.support.units import execute, run_units, small_unit


@pytest.fixture
def units(tmp_path: Path) -> list[Unit]:
    one = small_unit(tmp_path)
    return [replace(one, number=number) for number in range(4)]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_split_unit_is_finished_before_the_next_unit_begins(units: list[Unit], threads: int, tmp_path: Path) -> None:
    write_file(tmp_path / "e" / "bucket_00000", dense(2, 3))
    write_file(tmp_path / "x" / "bucket_00000", [(1, FIRST_FILE, 1), (2, FIRST_FILE, 1)], current=[3, 3], operation=2)
    large = replace(
        units[0],
        inserts=tuple(Input(path=f"{name}/bucket_00000", length=1) for name in "de"),
        deletes=(Input(path="x/bucket_00000", length=1),),
        split_bytes=1,
        small_stripe_bytes=0,
    )
    begun: list[int] = []
    first, second = run_units([large, units[1]], InProcessRunner(threads), lambda: begun.append(1))
    assert (first.figures.rows_out, first.figures.stripes_encoded, second.number) == (4, 2, 1)
    assert len(begun) == 5  # the first look, two encode tasks, the assemble task; and the other unit
    with pytest.raises(BadFile, match="gone"):
        run_units([replace(large, inserts=(*large.inserts, Input(path="f/gone", length=1)))], InProcessRunner(threads))


@pytest.mark.parametrize("threads", [1, 3])
def test_a_unit_whose_encode_task_meets_other_keys_starts_again_once(tmp_path: Path, threads: int) -> None:
    """Waiting encode tasks of the first try do not begin, and results of running ones are discarded."""
    unit = replace(large_unit(tmp_path), full_verify=False)
    wanted = execute(replace(unit, split_bytes=WHOLE))
    for write_id in (1, 8):
        keys = dense(write_id, 50 + write_id)
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", [*keys[1:], keys[0]])
    begun: list[int] = []
    other = small_unit(tmp_path / "other")
    first, second = run_units([unit, other], InProcessRunner(threads), lambda: begun.append(1))
    assert content(first.outputs[0])[0] == content(wanted.outputs[0])[0]
    assert (first.figures.rows_out, second.number) == (470, 0)
    if threads == 1:
        assert len(begun) == 4  # its first look, its largest encode task, the whole unit; and the other unit


def test_a_unit_that_has_read_all_keys_does_not_start_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 2.3: it would never end if something else were wrong about its keys."""
    monkeypatch.setattr(Unit, "looks_always", False)
    unit = replace(large_unit(tmp_path), full_verify=False)
    keys = dense(1, 51)
    write_file(tmp_path / "d1" / "bucket_00000", [*keys[1:], keys[0]])
    (answer,) = InProcessRunner().run([Job(units=[unit], check=lambda: None)])
    assert isinstance(answer, UnforeseenKeys)


@pytest.mark.parametrize(
    ("count", "size", "width", "wanted"),
    [
        (5, 1, 2, [1] * 5),
        (64, 1, 2, [16] * 4),
        (200, 1, 2, [PARCEL_UNITS] * 6 + [8]),
        (16, PARCEL_BYTES // 3, 2, [3, 3, 3, 3, 3, 1]),
        (3, PARCEL_BYTES * 2, 1, [1] * 3),
    ],
)
def test_parcels_are_small_and_enough_for_all_executors(
    units: list[Unit], count: int, size: int, width: int, wanted: list[int]
) -> None:
    sized = replace(units[0], inserts=(Input(path="d/bucket_00000", length=size),))
    queue = TaskQueue([Job(units=[sized], check=lambda: None) for _ in range(count)], width)
    assert [len(parcel) for parcel in queue.take(count)] == wanted


def queue_of(units: list[Unit]) -> TaskQueue:
    return TaskQueue([Job(units=units, check=lambda: None)], width=4)


def test_large_tasks_run_alone_and_the_largest_first(units: list[Unit], tmp_path: Path) -> None:
    """No core may idle while another one has begun the largest task last."""
    large = large_unit(tmp_path)
    queue = queue_of([units[0], large, units[1]])
    assert [[task.place for task in parcel] for parcel in queue.take(9)] == [[0]]
    ((task,),) = queue.take(9)
    queue.put(task, attempt_task(task.work))
    rows = []
    while isinstance((parcels := queue.take(9, large=2))[0][0].work, EncodeTask):
        assert len(parcels) <= 2
        rows += [task.work.rows for (task,) in parcels if isinstance(task.work, EncodeTask)]
    assert rows == sorted(rows, reverse=True)
    assert len(set(rows)) > 1
    assert [[task.place for task in parcel] for parcel in parcels] == [[2]]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_share_of_each_unit_that_is_done_is_told(tmp_path: Path, threads: int) -> None:
    """A unit that is split is told of task by task, and one that starts again begins at nothing."""
    told: dict[int, list[float]] = {0: [], 1: []}
    unit = replace(large_unit(tmp_path), full_verify=False)
    job = Job(units=[unit, small_unit(tmp_path / "other")], check=lambda: None, report=lambda n, s: told[n].append(s))
    InProcessRunner(threads).run([job])
    assert told[0] == sorted(told[0])
    assert len(told[0]) > 2
    assert [told[0][-1], *told[1]] == [1.0, 1.0]
    assert max(told[0][:-1]) <= ENCODED_SHARE
    for write_id in (1, 8):
        keys = dense(write_id, 50 + write_id)
        write_file(tmp_path / f"d{write_id}" / "bucket_00000", [*keys[1:], keys[0]])
    told[0].clear()
    InProcessRunner(threads).run([replace(job, units=[unit])])
    assert told[0][-1] == 1.0
    assert 0.0 in told[0]
