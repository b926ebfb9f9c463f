from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import BadFile, LockNotGranted, LostClaim
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.run import progress
from compactor.rewrite.run.execute import TaskInput, TaskResult, attempt_task
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.runner import InProcessRunner, attempt_parcels, keep_busy, run_here
from compactor.rewrite.run.task_queue import Job, TaskQueue
from compactor.rows.inputs import Input
from tests.support.patience import PATIENCE, until
from tests.support.units import run_units, small_unit
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
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
    caplog.set_level("INFO", progress.__name__)

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
    monkeypatch.setattr(progress, "EVERY_S", 0.01)
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
