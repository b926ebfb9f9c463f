from __future__ import annotations

import multiprocessing
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsIndex

import pytest

from compactor.base.errors import BadFile, CompactorError, LockNotGranted, LostClaim
from compactor.rewrite.plan.unit import Shape, Unit
from compactor.rewrite.run import runner as runners
from compactor.rewrite.run.execute import TaskInput, TaskResult, attempt_task
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.runner import (
    EVERY_S,
    InProcessRunner,
    JobProgress,
    ProcessRunner,
    attempt_parcels,
    keep_busy,
    run_here,
)
from compactor.rewrite.run.task_queue import Job, TaskQueue
from compactor.rows.inputs import Input
from tests.support import bombs
from tests.support.acid_files import dense, write_file
from tests.support.patience import PATIENCE, until
from tests.support.split_units import WHOLE, content, large_unit
from tests.support.units import acid_unit, execute, run_units, small_unit
from tests.support.watching import names_in


@pytest.fixture
def units(tmp_path: Path) -> list[Unit]:
    one = small_unit(tmp_path)
    return [replace(one, number=number) for number in range(4)]


@pytest.mark.parametrize("threads", [1, 3])
def test_results_come_in_the_order_of_the_units(units: list[Unit], threads: int) -> None:
    asked = []
    results = run_units(units, InProcessRunner(threads), lambda: asked.append(1))
    assert [r.number for r in results] == [0, 1, 2, 3]
    assert len(asked) == 4


def test_an_entry_that_must_stop_begins_no_further_unit(units: list[Unit]) -> None:
    """PROTOCOL 3.2: yields at the next unit."""
    answers = iter([None, LostClaim("not ours any more")])

    def check() -> None:
        answer = next(answers)
        if answer is not None:
            raise answer

    with pytest.raises(LostClaim):
        run_units(units, check=check)
    assert len(names_in(Path(units[0].staging) / "attempts")) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_the_error_of_a_unit_is_raised(units: list[Unit], threads: int) -> None:
    broken = replace(units[2], inserts=(Input(path="d/gone", length=1),))
    with pytest.raises(BadFile, match="gone"):
        run_units([units[0], broken], InProcessRunner(threads))


def test_an_entry_that_fails_leaves_the_others_alone(units: list[Unit]) -> None:
    def lost() -> None:
        raise LostClaim("not ours any more")

    broken = replace(units[1], inserts=(Input(path="d/gone", length=1),))
    wanted = [Job(units=[units[0]], check=lambda: None), Job(units=[broken, units[2]], check=lambda: None)]
    wanted += [Job(units=[units[3]], check=lost), Job(units=[units[3]], check=lambda: None)]
    first, second, third, fourth = InProcessRunner().run(wanted)
    assert isinstance(second, BadFile)
    assert isinstance(third, LostClaim)
    assert [[r.number for r in a] for a in (first, fourth) if isinstance(a, list)] == [[0], [3]]
    assert len(names_in(Path(units[0].staging) / "attempts")) == 3  # the second of the broken entry never began


def queue_of(units: list[Unit]) -> TaskQueue:
    return TaskQueue([Job(units=units, check=lambda: None)], width=4)


def test_an_idle_executor_gets_the_next_parcel(units: list[Unit]) -> None:
    """The first unit ends after all others."""
    others_done, places = threading.Event(), []

    def one(parcels: list[list[TaskInput]]) -> list[TaskResult | Failure]:
        ((work,),) = parcels
        assert isinstance(work, Unit)
        if work.number == 0:
            assert others_done.wait(PATIENCE)
        places.append(work.number)
        if len(places) == 3:
            others_done.set()
        return attempt_parcels(parcels)

    with ThreadPoolExecutor(2) as pool:
        assert keep_busy(queue_of(units), 2, lambda parcels: pool.submit(one, parcels)) == []
    assert places == [1, 2, 3, 0]


def test_long_work_reports_progress(
    units: list[Unit], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runners, "EVERY_S", 0.01)
    caplog.set_level("INFO", runners.__name__)

    def one(parcels: list[list[TaskInput]]) -> list[TaskResult | Failure]:
        ((work,),) = parcels
        assert isinstance(work, Unit)
        if work.number == 3:
            until("two lines beside the last unit", lambda: sum(" 3 of 4 " in line for line in caplog.messages) > 1)
        return attempt_parcels(parcels)

    with ThreadPoolExecutor(1) as pool:
        assert keep_busy(queue_of(units), 1, lambda parcels: pool.submit(one, parcels)) == []
    assert f"{units[0].location}: 3 of 4 tasks done, 1 under way, after 0 s" in caplog.messages


def test_parcels_without_a_result_are_returned(units: list[Unit]) -> None:
    def begin(parcels: list[list[TaskInput]]) -> Future[list[TaskResult | Failure]]:
        ((work,),) = parcels
        if isinstance(work, Unit) and work.number == 2:
            lost: Future[list[TaskResult | Failure]] = Future()
            lost.set_exception(EOFError())
            return lost
        return run_here(parcels)

    queue = queue_of(units)
    (task,) = keep_busy(queue, 2, begin, lost=EOFError)
    assert task.place == 2
    queue.put(task, attempt_task(task.work))
    (answer,) = queue.answers()
    assert isinstance(answer, list)
    with pytest.raises(EOFError):
        keep_busy(queue_of(units), 2, begin)


def test_what_no_cluster_begins_is_abandoned_once_nobody_wants_it(
    units: list[Unit], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An executor that never comes: only the time between two lines of progress brings the driver to look again."""
    monkeypatch.setattr(runners, "EVERY_S", 0.01)
    asked, abandoned = [], []

    def check() -> None:
        asked.append(1)
        if len(asked) == 2:
            raise LockNotGranted("a statement waits")  # what has begun may end
        if len(asked) > 3:
            raise LostClaim("cancelled")

    queue = TaskQueue([Job(units=units[:1], check=check)], 1)
    left = keep_busy(queue, 1, lambda parcels: Future(), abandon=lambda: abandoned.append(1))
    assert (left, abandoned) == ([], [1])
    (answer,) = queue.answers()
    assert isinstance(answer, LostClaim)


def test_a_line_is_logged_when_due(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    caplog.set_level("INFO", "compactor.rewrite.run.runner")
    progress = JobProgress("warehouse/t", lambda: now)
    lines_and_pauses = []
    for step in (EVERY_S / 2, EVERY_S / 2, 1, EVERY_S + 1):
        now += step
        progress.report(done=3, under_way=2, waiting=4)
        lines_and_pauses.append((len(caplog.messages), progress.pause_s))
    assert lines_and_pauses == [(0, EVERY_S / 2), (1, EVERY_S), (1, EVERY_S - 1), (2, EVERY_S)]
    assert caplog.messages == [
        "warehouse/t: 3 of 9 tasks done, 2 under way, after 10 s",
        "warehouse/t: 3 of 9 tasks done, 2 under way, after 22 s",
    ]


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return small_unit(tmp_path)


@pytest.fixture
def runner() -> Iterator[ProcessRunner]:
    with ProcessRunner(2) as runner:
        yield runner


def jobs_of(units: list[Unit]) -> list[Job]:
    return [Job(units=[unit], check=lambda: None) for unit in units]


def test_many_units_run_elsewhere_and_fail_alone(unit: Unit, runner: ProcessRunner) -> None:
    broken = replace(unit, inserts=(Input(path="d/gone", length=1),))
    answers = runner.run(jobs_of([broken if n == 7 else replace(unit, number=n) for n in range(20)]))
    assert [n for n, answer in enumerate(answers) if isinstance(answer, BadFile)] == [7]
    assert [a[0].number for a in answers if isinstance(a, list)] == [n for n in range(20) if n != 7]
    assert len(multiprocessing.active_children()) == 2
    runner.close()
    assert multiprocessing.active_children() == []


def test_one_small_unit_starts_no_process(unit: Unit, runner: ProcessRunner) -> None:
    (answer,) = runner.run(jobs_of([unit]))
    assert isinstance(answer, list)
    assert multiprocessing.active_children() == []


def test_with_a_limit_of_memory_no_unit_runs_in_this_process(unit: Unit) -> None:
    with ProcessRunner(1, 4 << 30) as runner:
        (answer,) = runner.run(jobs_of([unit]))
        assert isinstance(answer, list)
        assert len(multiprocessing.active_children()) == 1


class Deadly(str):
    """A path that kills the process that it arrives in."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        return signal.raise_signal, (signal.SIGKILL,)


def test_a_unit_that_ends_its_process_is_the_only_one_to_fail(unit: Unit, runner: ProcessRunner) -> None:
    """Stands for a unit that runs out of memory. A task killed along with it gets another chance, alone."""
    deadly = replace(unit, number=9, inserts=(Input(path=Deadly("d/bucket_00001"), length=1),))
    answers = runner.run(jobs_of([replace(unit, number=n) for n in range(3)] + [deadly]))
    assert [isinstance(answer, list) for answer in answers] == [True, True, True, False]
    assert isinstance(answers[3], CompactorError)
    assert "was killed" in str(answers[3])


def test_a_unit_that_needs_more_memory_than_its_process_may_have_fails_alone(unit: Unit, tmp_path: Path) -> None:
    """Limits of what files may hold cannot foresee everything: here a list of a hundred million numbers in one row."""
    large = bomb_unit(tmp_path / "large", bombs.long_lists())
    with ProcessRunner(2, 1 << 30) as runner:
        failed, done = runner.run(jobs_of([large, unit]))
        (alone,) = runner.run(jobs_of([large]))
    assert isinstance(done, list)
    for answer in (failed, alone):
        assert isinstance(answer, CompactorError)
        assert f"{large.location}" in str(answer)
        assert "1073741824 bytes" in str(answer)
        assert "compactor.unit.memory" in str(answer)


def bomb_unit(folder: Path, data: bytes) -> Unit:
    """Returns a unit of one file, of which a row is deleted so that it is decoded."""
    rows, deletes = "delta_0000001_0000001_0000/bucket_00000", "delete_delta_0000002_0000002_0000/bucket_00000"
    write_file(folder / deletes, dense(1, 1), current=[2], operation=2)
    (folder / rows).parent.mkdir()
    (folder / rows).write_bytes(data)
    made = acid_unit(folder, Shape.MAJOR, rows=[rows], deletes=[deletes])
    return replace(made, full_verify=False, row_type="struct<a:array<bigint>>")


def test_a_split_unit_runs_in_all_processes(tmp_path: Path) -> None:
    """DESIGN 4: skewed file numbers are split by stripe ranges, in processes as on executors."""
    unit = large_unit(tmp_path)
    with ProcessRunner(2) as runner:
        (result,) = run_units([unit], runner)
        assert content(result.outputs[0])[0] == content(execute(replace(unit, split_bytes=WHOLE)).outputs[0])[0]
    assert result.figures.stripes_encoded == 6


def test_a_unit_starts_again_in_processes_too(tmp_path: Path) -> None:
    """PROTOCOL 2.3: the error of an encode task comes back as a value."""
    unit = replace(large_unit(tmp_path), full_verify=False)
    keys = dense(1, 51)
    write_file(tmp_path / "d1" / "bucket_00000", [*keys[1:], keys[0]])
    with ProcessRunner(2) as runner:
        (result,) = run_units([unit], runner)
    assert content(result.outputs[0])[0] == content(execute(replace(unit, full_verify=True)).outputs[0])[0]
