"""Triggers, which wait without a worker slot, in the triggerer's event loop.

Their database work runs in threads. Each sleeps before its first look. Airflow fails the task of a trigger that fires
before the scheduler has noticed that the task waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any

from airflow.triggers.base import BaseTrigger, TaskSuccessEvent, TriggerEvent

# At module level on purpose: an import inside run() would block the event loop of every other trigger.
from compactor.airflow import tasks
from compactor.airflow.task_ends import ENDED, is_waiting_again, read_task_state
from compactor.base.errors import CompactorError, DatabaseUnavailable
from compactor.batches.control import BatchStatus
from compactor.launch.batch_watch import BatchProgress

log = logging.getLogger(__name__)
#: Seconds before the next look at a database that could not be read.
TROUBLE_PAUSE = 30.0


async def _pause(metastore: str, trouble: CompactorError) -> float:
    """Waits before the next look at the metastore's database, and returns the seconds of the wait."""
    log.warning("cannot read metastore %s; trying again in %s s: %s", metastore, TROUBLE_PAUSE, trouble)
    await asyncio.sleep(TROUBLE_PAUSE)
    return TROUBLE_PAUSE


class ChangeTrigger(BaseTrigger):
    """Fires once the metastore's change marker differs from ``seen``, or the interval has passed.

    The interval is ``hive.compactor.check.interval``.

    ``seen`` is the marker from which the last scan started, so no change between two runs is missed, and an unchanged
    backlog does not fire again. A scan starts at most every ``poll_seconds``.
    """

    def __init__(self, *, metastore: str, seen: str, poll_seconds: float, ends_task: bool = True) -> None:
        super().__init__()
        self.metastore = metastore
        self.seen = seen
        self.poll_seconds = poll_seconds
        self.ends_task = ends_task

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{__name__}.{type(self).__name__}",
            {
                "metastore": self.metastore,
                "seen": self.seen,
                "poll_seconds": self.poll_seconds,
                "ends_task": self.ends_task,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        waited = 0.0
        while True:
            await asyncio.sleep(self.poll_seconds)
            waited += self.poll_seconds
            try:
                marker, interval = await asyncio.to_thread(tasks.read_marker, self.metastore)
            except CompactorError as trouble:
                waited += await _pause(self.metastore, trouble)
                continue
            if marker != self.seen or waited >= interval:
                yield TaskSuccessEvent(xcoms={"return_value": marker}) if self.ends_task else TriggerEvent(marker)
                return


class EntriesTrigger(BaseTrigger):
    """Fires once all entries of ``ids`` have ended, or after ``timeout_seconds``.

    The event has the state of each entry: ``{"41": "ready for cleaning"}``.
    """

    def __init__(self, *, metastore: str, ids: Sequence[int], poll_seconds: float, timeout_seconds: float) -> None:
        super().__init__()
        self.metastore = metastore
        self.ids = list(ids)
        self.poll_seconds = poll_seconds
        self.timeout_seconds = timeout_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{__name__}.{type(self).__name__}",
            {
                "metastore": self.metastore,
                "ids": self.ids,
                "poll_seconds": self.poll_seconds,
                "timeout_seconds": self.timeout_seconds,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        waited = 0.0
        while True:
            await asyncio.sleep(self.poll_seconds)
            waited += self.poll_seconds
            try:
                states = await asyncio.to_thread(tasks.read_states, self.metastore, self.ids)
            except DatabaseUnavailable as trouble:
                waited += await _pause(self.metastore, trouble)
                continue
            if waited >= self.timeout_seconds or not tasks.are_under_way(states):
                yield TriggerEvent({str(entry): state for entry, state in states.items()})
                return


class DueTrigger(BaseTrigger):
    """Fires once a compaction in a table or a database is due.

    Its event is ``{"due": [...]}``, or ``{"error": "..."}``.

    It looks at directories when the metastore has changed, and every ``hive.compactor.check.interval``, because aborted
    transactions become due by their age.
    """

    def __init__(
        self, *, metastore: str, table: str | None, partition: str | None, database: str | None, poll_seconds: float
    ) -> None:
        super().__init__()
        self.metastore = metastore
        self.table = table
        self.partition = partition
        self.database = database
        self.poll_seconds = poll_seconds

    @property
    def where(self) -> dict[str, str | None]:
        """The arguments of ``tasks.list_due``."""
        return {"table": self.table, "partition": self.partition, "database": self.database}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{__name__}.{type(self).__name__}",
            {"metastore": self.metastore, **self.where, "poll_seconds": self.poll_seconds},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        seen, waited = "", 0.0
        while True:
            await asyncio.sleep(self.poll_seconds)
            waited += self.poll_seconds
            try:
                marker, interval = await asyncio.to_thread(tasks.read_marker, self.metastore)
                if marker != seen or waited >= interval:
                    seen, waited = marker, 0.0
                    if due := await asyncio.to_thread(partial(tasks.list_due, self.metastore, **self.where)):
                        yield TriggerEvent({"due": due})
                        return
            except DatabaseUnavailable as trouble:
                waited += await _pause(self.metastore, trouble)
            except CompactorError as error:
                yield TriggerEvent({"error": str(error)})
                return


class BatchTrigger(BaseTrigger):
    """Fires when a batch has ended. The event is its status.

    Until then it logs progress.

    A triggerer that ends, or passes the trigger on, leaves the application running. A person who marks the task ends the
    application and its requests. Clearing the task only ends the application, and a new one follows.
    """

    def __init__(self, *, metastore: str, batch_id: int, poll_seconds: float) -> None:
        super().__init__()
        self.metastore = metastore
        self.batch_id = batch_id
        self.poll_seconds = poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        return (
            f"{__name__}.{type(self).__name__}",
            {"metastore": self.metastore, "batch_id": self.batch_id, "poll_seconds": self.poll_seconds},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        before: BatchProgress | None = None
        while True:
            await asyncio.sleep(self.poll_seconds)
            try:
                progress = await asyncio.to_thread(tasks.read_progress, self.metastore, self.batch_id)
            except CompactorError as trouble:
                await _pause(self.metastore, trouble)
                continue
            for line in progress.list_news(before):
                log.info("%s", line)
            before = progress
            if progress.is_pointless:
                log.info("batch %s: its requests were cancelled; ending its application", self.batch_id)
                await asyncio.to_thread(tasks.release, self.metastore, self.batch_id, "they were cancelled")
                continue
            if progress.status is not BatchStatus.UNDER_WAY:
                yield TriggerEvent(progress.status.value)
                return

    async def on_kill(self) -> None:
        """Ends the application if a person ended or cleared the task.

        Airflow also calls this in a triggerer that it presumed dead; then the task still waits elsewhere. After a clear, the
        task may already wait for the same application again.
        """
        state = await asyncio.to_thread(read_task_state, self.task_instance)
        if state == "deferred" and not await asyncio.to_thread(is_waiting_again, self.task_instance):
            log.info("batch %s: the task waits elsewhere; its application continues", self.batch_id)
        elif state in ENDED:
            log.info("batch %s: the task was marked %s; ending its application and its requests", self.batch_id, state)
            await asyncio.to_thread(tasks.abort, self.metastore, self.batch_id)
        else:
            log.info("batch %s: the task was cleared; ending its application", self.batch_id)
            await asyncio.to_thread(tasks.release, self.metastore, self.batch_id, "its task was cleared")
