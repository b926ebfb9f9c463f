"""Writes rows: executors stage them, and the keeper names them. Imports no SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.messages import AbortWrite, BegunWrite, CommitWrite
from compactor.tables.writing.written_part import WrittenPart


def task_number() -> int:
    """Returns the number of the task that runs in this process of an executor."""
    task = TaskContext.get()
    assert task is not None
    return int(task.partitionId())


def query_id() -> str:
    """Returns Spark's id of the query whose batch the task belongs to; empty for a task of no stream."""
    task = TaskContext.get()
    assert task is not None
    return task.getLocalProperty("sql.streaming.queryId") or ""


def query_of(messages: Iterable[Staged | None]) -> str:
    """Returns the id of the query that all tasks belong to."""
    return next((message.query for message in messages if message is not None), "")


def stage(begun: BegunWrite, rows: Iterator[pa.RecordBatch]) -> tuple[WrittenPart, ...]:
    """Stages the rows of one task, on an executor."""
    # needed on executors alone; the driver's many short processes start sooner without
    from compactor.storage.stores import open_stores
    from compactor.tables.writing.part_files import write_part

    return write_part(begun.work, rows, task_number(), open_stores(begun.stores))


def parts_of(messages: Iterable[Staged | None]) -> tuple[WrittenPart, ...]:
    """Returns what the tasks have staged; one that failed has no message."""
    return tuple(part for message in messages if message is not None for part in message.parts)


class Staged(WriterCommitMessage):
    """The parts that one task has staged. Spark hands on those of one attempt of each task; of others nobody learns."""

    def __init__(self, parts: tuple[WrittenPart, ...], query: str) -> None:
        self.parts, self.query = parts, query


class Writer(DataSourceArrowWriter):
    """One append or overwrite, which the keeper has begun. It travels to executors, and to the process that commits."""

    def __init__(self, begun: BegunWrite) -> None:
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Stages the rows of one task, on an executor."""
        return Staged(stage(self._begun, iterator), query_id())

    def commit(self, messages: Sequence[Staged | None]) -> None:
        """Names what the tasks have staged, and commits.

        Raises:
            TransactionAborted: the transaction is lost; nothing was named.
            CommitUnknown: nobody knows whether it was committed.
        """
        Keeper().ask(CommitWrite(hold=self._begun.hold, parts=parts_of(messages), query=query_of(messages)))

    def abort(self, messages: Sequence[Staged | None]) -> None:
        """Ends the transaction without a trace; does nothing to one that has ended."""
        Keeper().ask(AbortWrite(hold=self._begun.hold))
