"""Executes tasks, in this process or on an executor.

A task is a unit, or one of the tasks of a split unit.

Knows only files. Attempt files have unique names, so a late attempt touches nothing that is published (DESIGN 4).
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

from compactor.base.errors import CompactorError, StorageError, UnforeseenKeys, failing_alone
from compactor.base.steps import Step, reach
from compactor.orc.io.look_ahead import look_ahead
from compactor.rewrite.full_acid.rebalance import rewrite_rebalanced
from compactor.rewrite.full_acid.rewrite_full_acid import rewrite_full_acid, rewrite_hive2
from compactor.rewrite.full_acid.split import AssembleTask, EncodeTask, EncodeTaskResult, SplitUnit
from compactor.rewrite.full_acid.split_tasks import HandOver, run_assemble_task, run_encode_task
from compactor.rewrite.insert_only.rewrite_insert_only import rewrite_insert_only
from compactor.rewrite.plan.unit import Output, Unit, UnitResult
from compactor.rewrite.run.attempt_files import attempt_folder, hand_over
from compactor.rewrite.run.failure import Failure
from compactor.rewrite.run.process_settings import keep_freed_memory, memory_limit
from compactor.storage.protocol import Storage
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import open_stores

log = logging.getLogger(__name__)
COLUMNS = 256  #: of all tasks under way at once; writers keep buffers for each column
TaskInput: TypeAlias = Unit | EncodeTask | AssembleTask
TaskResult: TypeAlias = UnitResult | SplitUnit | EncodeTaskResult


def attempt_task(task: TaskInput) -> TaskResult | Failure:
    """Calls ``attempt_tasks`` for a single task."""
    return attempt_tasks([task])[0]


def attempt_tasks(tasks: Sequence[TaskInput]) -> list[TaskResult | Failure]:
    """Performs the tasks of a parcel and returns an error as a value, so that the other tasks go on.

    Any other exception than those of ``compactor.base.errors`` becomes a value, too: the content of the files made a library
    or Compactor fail, and would do so in every pass. While tasks wait for the store, several are under way at once.

    All files of a parcel are made durable together, before any task is reported.
    """
    keep_freed_memory()
    results = _attempt_all(tasks)
    written: dict[StoreOptions, list[str]] = defaultdict(list)
    for task, result in zip(tasks, results, strict=True):
        written[unit_of(task).stores] += [output.path for output in _outputs(result)]
    failed: dict[str, StorageError] = {}
    for stores, paths in written.items():
        failed |= open_stores(stores).sync(paths)
    return [
        next((Failure.from_error(failed[output.path]) for output in _outputs(result) if output.path in failed), result)
        for result in results
    ]


def _attempt_all(tasks: Sequence[TaskInput]) -> list[TaskResult | Failure]:
    """Attempts tasks side by side, and retries alone those that lacked memory."""
    widest = max((unit_of(task).row_type.count(":") for task in tasks), default=0)
    results = list(look_ahead(_attempt, tasks, at_once=COLUMNS // max(widest, 1)))
    return [
        _attempt(task) if len(tasks) > 1 and isinstance(result, Failure) and result.lacks_memory else result
        for task, result in zip(tasks, results, strict=True)
    ]


def _attempt(task: TaskInput) -> TaskResult | Failure:
    unit = unit_of(task)
    try:
        with failing_alone(f"{unit.location}, file number {unit.number}"):
            started = time.thread_time()
            return perform_task(task).timed(time.thread_time() - started)
    except CompactorError as error:
        if isinstance(error.__cause__, MemoryError):
            return Failure.from_error(_without_memory(error, unit), lacks_memory=True)
        return Failure.from_error(error)


def _without_memory(error: CompactorError, unit: Unit) -> CompactorError:
    """Returns the error for a unit that needs more memory than there is."""
    limit = memory_limit()
    than = f"the {limit} bytes of its process (compactor.unit.memory)" if limit else "its process could get"
    reason = f" ({error.__cause__})" if str(error.__cause__) else ""
    return CompactorError(
        f"{unit.location}, file number {unit.number}: needs more memory than {than}{reason}; find out who wrote its files, "
        "give the worker more, or rewrite the partition with INSERT OVERWRITE"
    )


def unit_of(task: TaskInput) -> Unit:
    """Returns the unit that a task belongs to."""
    return task if isinstance(task, Unit) else task.unit


def with_stores(task: TaskInput, stores: StoreOptions) -> TaskInput:
    """Returns the task with other ``stores``."""
    return (
        replace(task, stores=stores)
        if isinstance(task, Unit)
        else replace(task, unit=replace(task.unit, stores=stores))
    )


def _outputs(result: TaskResult | Failure) -> tuple[Output, ...]:
    """Returns the files that stay. The files of an encode task are read once more and then removed."""
    done = result.assemble_task if isinstance(result, SplitUnit) else result
    return tuple(o for o in done.outputs if o.upload is None) if isinstance(done, AssembleTask | UnitResult) else ()


def perform_task(task: TaskInput) -> TaskResult:
    """Writes the task's outputs as attempt files, not yet durable, and proves them.

    A unit that is too much for one task is split. If keys differ from their statistics, the unit starts again and reads all
    keys.

    Raises:
        UnforeseenKeys: an encode task met such keys; its unit must start again.
        BadFile: an input cannot be read.
        NotLossless: something would be lost.
        VerificationFailed: a check of an output fails.
        StorageError: an output cannot be written.
    """
    try:
        return _perform_once(task)
    except UnforeseenKeys as error:
        if not isinstance(task, Unit):
            raise
        log.warning("all keys are read: %s", error)
    return _perform_once(replace(task, reads_keys=True))


def _perform_once(task: TaskInput) -> TaskResult:
    unit = unit_of(task)
    storage = open_stores(unit.stores)
    home = os.path.join(unit.staging, "attempts", f"{unit.number:05d}-{uuid.uuid4().hex}")

    def hand(*outputs: Output) -> tuple[Output, ...]:
        final = {} if isinstance(task, EncodeTask) else dict(unit.final)  # an encode task's file is never named
        return hand_over(storage, outputs, home, full=unit.full_verify, final=final)

    try:
        with attempt_folder(storage, home) as folder:
            reach(Step.ATTEMPT_STARTED)
            if isinstance(task, EncodeTask):
                result: TaskResult = run_encode_task(task, storage, folder, hand)
            elif isinstance(task, AssembleTask):
                result = run_assemble_task(task, storage, folder, hand)
            else:
                result = _rewrite(task, storage, folder, hand)
            reach(Step.ATTEMPT_WRITTEN)
    except OSError as error:  # from a codec that writes; reading raises BadFile
        raise StorageError(
            f"{home}: cannot be written: {error.strerror or error}; check the disk and its permissions, then try again"
        ) from error
    return result


def _rewrite(unit: Unit, storage: Storage, folder: str, hand: HandOver) -> UnitResult | SplitUnit:
    if unit.rebalance is not None:
        result = rewrite_rebalanced(unit, unit.rebalance, storage, folder)
        return replace(result, outputs=hand(*result.outputs))
    if unit.file_format is not None:
        result = rewrite_insert_only(unit, storage, os.path.join(folder, "rows"))
        return replace(result, outputs=hand(*result.outputs))
    if unit.version_1:
        return rewrite_hive2(unit, storage, folder, hand)
    return rewrite_full_acid(unit, storage, folder, hand)
