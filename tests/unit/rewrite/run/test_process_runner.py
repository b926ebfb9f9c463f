from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, SupportsIndex

import pytest

from compactor.base.errors import BadFile, CompactorError
from compactor.rewrite.plan.unit import Shape, Unit
from compactor.rewrite.run.process_runner import ProcessRunner
from compactor.rewrite.run.task_queue import Job
from compactor.rows.inputs import Input
from tests.support import bombs
from tests.support.acid_files import dense, write_file
from tests.support.split_units import WHOLE, content, large_unit
from tests.support.units import acid_unit, execute, run_units, small_unit


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
