"""A process that compacts one directory and prints its peak memory in bytes, and the seconds:
``python -m benchmarks.parts.peak <location> <row type> <highest write ID> <cores>``."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import CompactorError
from compactor.base.ids import TxnId, WriteId
from compactor.rewrite.plan.plan import Plan, PlanContext, plan
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish import stage
from compactor.rewrite.run.process_settings import exclude_pandas
from compactor.rewrite.run.runner import InProcessRunner, ProcessRunner, Runner
from compactor.rewrite.run.task_queue import Job
from compactor.storage.local import LocalStorage
from tests.torture.child import forget_peak, peak


def peak_of(location: Path, row_type: str, highest: int) -> int:
    """Returns the peak memory, in bytes, of a process that makes a base of ``location``; the base is removed again."""
    (answer,) = _side_by_side([location], row_type, highest, 1)
    return int(answer[0])


def seconds_of(locations: Sequence[Path], row_type: str, highest: int, cores: int) -> float:
    """Returns the seconds of the slowest of several processes that run side by side, one for each of ``locations``."""
    return max(float(answer[1]) for answer in _side_by_side(locations, row_type, highest, cores))


def _side_by_side(locations: Sequence[Path], row_type: str, highest: int, cores: int) -> list[list[str]]:
    command = [sys.executable, "-m", "benchmarks.parts.peak"]
    started = [
        subprocess.Popen(
            [*command, str(location), row_type, str(highest), str(cores)],
            cwd=Path(__file__).parents[2],
            stdout=subprocess.PIPE,
            text=True,
        )
        for location in locations
    ]
    answers = [process.communicate()[0].split() for process in started]
    for process in started:
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, process.args)
    return answers


def plan_of(location: str, row_type: str, highest: int) -> Plan:
    """Returns the plan for a base of a directory whose write IDs up to ``highest`` are all committed."""
    write_ids = ValidWriteIdList(table="default.t", high_watermark=WriteId(highest))
    return plan(
        acid_directory(LocalStorage().listing(location), write_ids, ValidTxnList(high_watermark=TxnId(highest))),
        Shape.MAJOR,
        PlanContext(
            location=location,
            txn=TxnId(highest + 1),
            write_ids=write_ids.for_compactor(),
            row_type=row_type,
        ),
    )


def rewrite_and_discard(what: Plan, runner: Runner) -> None:
    """Makes the base, proves it, and throws it away."""
    storage = LocalStorage()
    stage.prepare(storage, what)
    (answer,) = runner.run([Job(units=what.units, check=lambda: None)])
    if isinstance(answer, CompactorError):
        raise answer
    stage.check_staged(storage, what, stage.accept(storage, what, answer))
    storage.remove(what.staging)


def main() -> None:
    location, row_type, highest, cores = sys.argv[1:]
    what = plan_of(location, row_type, int(highest))
    with ExitStack() as stack:
        exclude_pandas()  # as the processes of a runner do
        runner: Runner = InProcessRunner()
        if int(cores) > 1:
            runner = processes = stack.enter_context(ProcessRunner(int(cores)))
            processes.start()
        forget_peak()
        start = time.perf_counter()
        rewrite_and_discard(what, runner)
        sys.stdout.write(f"{peak()} {time.perf_counter() - start:.3f}\n")


if __name__ == "__main__":
    main()
