"""The jobs and errors of SparkRunner, over a stand-in for the context that runs tasks in this process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from compactor.base.errors import BadFile, LostClaim, StorageError
from compactor.launch.spark_runner import SparkRunner
from compactor.rewrite.plan.unit import Input, Unit
from compactor.rewrite.run import runner as runners
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.task_queue import Job
from compactor.storage.executor_tokens import ExecutorTokens
from compactor.storage.store_options import StoreOptions
from tests.support.acid_files import FIRST_FILE, dense, write_file
from tests.support.patience import PATIENCE
from tests.support.units import run_units, small_unit


class Context:
    """Runs the tasks of a cluster of ``defaultParallelism`` cores; every value is pickled on its way."""

    def __init__(self, width: int) -> None:
        self.defaultParallelism = width
        self.jobs: list[int] = []  #: how many tasks each has
        self.groups: set[str] = set()
        self.cancelled = threading.Event()

    def setJobGroup(self, name: str, description: str) -> None:  # noqa: N802
        self.groups.add(name)

    def cancelJobGroup(self, name: str) -> None:  # noqa: N802
        assert self.groups == {name}
        self.cancelled.set()

    def parallelize(self, values: Sequence[Any], slices: int) -> Any:
        assert slices == len(values)
        self.jobs.append(len(values))

        def mapped(work: Callable[[Any], Any]) -> Any:
            return SimpleNamespace(collect=lambda: [self.done(work, value) for value in values])

        return SimpleNamespace(map=mapped)

    def done(self, work: Callable[[Any], Any], value: Any) -> Any:
        return pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(value)))))


def runner(context: Context) -> SparkRunner:
    return SparkRunner(SimpleNamespace(sparkContext=context))  # type: ignore[arg-type]


@pytest.fixture
def unit(tmp_path: Path) -> Unit:
    return small_unit(tmp_path)


def test_small_units_share_jobs_of_the_clusters_width(unit: Unit) -> None:
    context, asked = Context(2), []
    units = [replace(unit, number=n) for n in range(5)]
    results = run_units(units, runner(context), lambda: asked.append(1))
    assert [r.number for r in results] == [0, 1, 2, 3, 4]
    assert (context.jobs, len(asked)) == ([2, 2, 1], 3)
    assert all(r.figures.rows_out == 3 for r in results)


def test_every_executor_is_started_before_there_is_work() -> None:
    context = Context(3)
    assert runner(context).start().result(PATIENCE) is None
    assert context.jobs == [3]


def test_a_cluster_that_cannot_start_executors_says_so_to_whoever_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    context = Context(1)
    monkeypatch.setattr(context, "done", lambda work, value: 1 / 0)
    assert isinstance(runner(context).start().exception(PATIENCE), ZeroDivisionError)


def test_no_job_begins_after_a_request_to_stop(unit: Unit) -> None:
    context, answers = Context(1), iter([None, LostClaim("not ours any more")])

    def check() -> None:
        if error := next(answers):
            raise error

    with pytest.raises(LostClaim):
        run_units([unit, unit, unit], runner(context), check)
    assert context.jobs == [1]


def test_a_failed_job_leaves_no_other_running(unit: Unit) -> None:
    """Stands for an executor whose Python ends. Tasks of the same entries would go on, although nobody needs them."""

    class Dies(Context):
        def done(self, work: Callable[[Any], Any], value: Any) -> Any:
            if value[0].number == 0:
                raise RuntimeError("exit code 137")
            assert self.cancelled.wait(PATIENCE)
            raise RuntimeError("cancelled")

    context = Dies(2)
    large = replace(unit, split_bytes=0)
    with pytest.raises(RuntimeError, match="137"):
        run_units([replace(large, number=n) for n in range(9)], runner(context))
    assert context.cancelled.is_set()
    assert len(context.jobs) <= 4  # two for each core


def test_units_that_no_executor_takes_end_with_their_request(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without room: nobody tells the driver but the rows, and its job would wait for ever."""
    monkeypatch.setattr(runners, "EVERY_S", 0.01)

    class Waits(Context):
        def done(self, work: Callable[[Any], Any], value: Any) -> Any:
            assert self.cancelled.wait(PATIENCE)
            raise RuntimeError("cancelled")

    context, asked = Waits(1), []

    def check() -> None:
        asked.append(1)
        if len(asked) > 2:
            raise LostClaim("cancelled by a person")

    (answer,) = runner(context).run([Job(units=[unit], check=check)])
    assert isinstance(answer, LostClaim)


def test_an_executors_error_is_raised_as_it_was(unit: Unit) -> None:
    broken = replace(unit, inserts=(Input(path="d/gone", length=1),))
    with pytest.raises(BadFile, match="d/gone: it is gone"):
        run_units([unit, broken], runner(Context(2)))


def test_tiny_units_of_many_entries_share_tasks_and_fail_alone(unit: Unit) -> None:
    context = Context(2)
    broken = replace(unit, inserts=(Input(path="d/gone", length=1),))
    jobs = [Job(units=[broken if n == 7 else replace(unit, number=n)], check=lambda: None) for n in range(64)]
    answers = runner(context).run(jobs)
    assert context.jobs == [2, 2]
    assert [n for n, answer in enumerate(answers) if isinstance(answer, BadFile)] == [7]
    assert [a[0].number for a in answers if isinstance(a, list)] == [n for n in range(64) if n != 7]


def test_each_encode_task_of_a_skewed_unit_is_a_job(unit: Unit, tmp_path: Path) -> None:
    """DESIGN 4: skewed file numbers are split by stripe ranges and assembled by copying."""
    gone = [(write_id, FIRST_FILE, 0) for write_id in range(1, 4)]
    write_file(tmp_path / "x" / "bucket_00000", gone, current=[3] * 3, operation=2)
    for write_id in range(1, 4):
        write_file(tmp_path / f"e{write_id}" / "bucket_00000", dense(write_id, 3))
    large = replace(
        unit,
        inserts=tuple(Input(path=f"e{write_id}/bucket_00000", length=1) for write_id in range(1, 4)),
        deletes=(Input(path="x/bucket_00000", length=1),),
        split_bytes=1,
        small_stripe_bytes=0,
    )
    context = Context(4)
    (result,) = run_units([large], runner(context))
    assert (context.jobs, result.figures.rows_out, result.figures.stripes_encoded) == ([1] * 5, 6, 3)


class Tokens(ExecutorTokens):
    """Stands in for what would ask a NameNode."""

    def standing_in(self, options: StoreOptions, location: str) -> StoreOptions:
        if location == "hdfs://nn/gives-none":
            raise StorageError("cannot get a delegation token")
        return options.by_token("nn", "t1") if location.startswith("hdfs:") else options


def test_executors_get_tokens_and_a_unit_without_one_fails_alone(unit: Unit, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []

    def attempt(tasks: Sequence[Unit]) -> list[Failure]:
        seen.extend(task.stores.of_place("hdfs", "nn") for task in tasks)
        return [Failure(kind="BadFile", message=task.location) for task in tasks]

    monkeypatch.setattr("compactor.launch.spark_runner.attempt_parcel", attempt)
    given = StoreOptions.from_tables({"hdfs": {"url": "http://nn:9870", "kerberos": True, "keytab": "/k"}})
    context = Context(1)
    monkeypatch.setattr(context, "done", lambda work, value: work(value))
    spark = SparkRunner(SimpleNamespace(sparkContext=context), Tokens())  # type: ignore[arg-type]
    units = [
        replace(unit, location=location, stores=given)
        for location in ("hdfs://nn/a", "hdfs://nn/gives-none", "hdfs://nn/b")
    ]
    answers = spark._run_parcels([units[:2], units[2:]])
    assert [answer.message for answer in answers if isinstance(answer, Failure)] == [
        "hdfs://nn/a",
        "cannot get a delegation token",
        "hdfs://nn/b",
    ]
    assert seen == [{"url": "http://nn:9870", "token": "t1"}] * 2
