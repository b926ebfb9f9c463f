"""The Python of an executor, which runs units and nothing else."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import cache

from compactor.rewrite.run.execute import TaskInput, TaskResult, attempt_tasks
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.process_settings import collect_rarely, exclude_pandas


def attempt_parcel(tasks: Sequence[TaskInput]) -> list[TaskResult | Failure]:
    """Performs the tasks of a parcel; see ``attempt_tasks``."""
    _prepare_executor()
    return attempt_tasks(tasks)


@cache
def _prepare_executor() -> None:
    """Does once per process what makes units quicker there, unless this process is no executor's."""
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        exclude_pandas()
        collect_rarely()
        gc.freeze()  # what is imported stays; PySpark looks for cycles among all objects after each task
