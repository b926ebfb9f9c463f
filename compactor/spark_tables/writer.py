"""Writers of rows, changes and streams: executors stage files, the keeper names and commits them.

Imports no SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_requests import (
    AbortChange,
    AbortStream,
    AbortWrite,
    BeginWrite,
    BegunInserts,
    BegunWrite,
    ChangeWork,
    CommitChange,
    CommitInserts,
    CommitWrite,
    Hold,
)
from compactor.tables.writing.writer_messages import ChangedPart, WrittenPart


def task_number() -> int:
    """Returns the number of the task that runs in this process of an executor."""
    task = TaskContext.get()
    assert task is not None
    return int(task.partitionId())


def query_id() -> str:
    """Returns Spark's id of the streaming query that the task belongs to; empty outside a stream."""
    task = TaskContext.get()
    assert task is not None
    return task.getLocalProperty("sql.streaming.queryId") or ""


def find_query(messages: Iterable[StagedRows | None]) -> str:
    """Returns the id of the streaming query that all tasks belong to; empty outside a stream."""
    return next((message.query for message in messages if message is not None), "")


def stage(begun: BegunWrite, rows: Iterator[pa.RecordBatch]) -> tuple[WrittenPart, ...]:
    """Stages the rows of one task, on an executor."""
    # Only executors need these imports; without them the driver's many short processes start sooner.
    from compactor.storage.stores import open_stores
    from compactor.tables.writing.part_files import write_part

    return write_part(begun.work, rows, task_number(), open_stores(begun.stores))


def collect_parts(messages: Iterable[StagedRows | None]) -> tuple[WrittenPart, ...]:
    """Returns the parts that the tasks have staged. A failed task has no message."""
    return tuple(part for message in messages if message is not None for part in message.parts)


class StagedRows(WriterCommitMessage):
    """The parts that one task has staged. Spark passes on the message of only one attempt of each task."""

    def __init__(self, parts: tuple[WrittenPart, ...], query: str) -> None:
        self.parts, self.query = parts, query


class Writer(DataSourceArrowWriter):
    """Writes one append or overwrite, which the keeper has begun.

    It travels to executors and the committing process.
    """

    def __init__(self, begun: BegunWrite) -> None:
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stages the rows of one task, on an executor."""
        return StagedRows(stage(self._begun, iterator), query_id())

    def commit(self, messages: Sequence[StagedRows | None]) -> None:
        """Names what the tasks have staged, and commits.

        Raises:
            TransactionAborted: the transaction is lost; nothing was named.
            CommitUnknown: nobody knows whether it was committed.
        """
        Keeper().ask(CommitWrite(hold=self._begun.hold, parts=collect_parts(messages), query=find_query(messages)))

    def abort(self, messages: Sequence[StagedRows | None]) -> None:
        """Ends the transaction without a trace; does nothing to one that has ended."""
        Keeper().ask(AbortWrite(hold=self._begun.hold))


class StagedInserts(WriterCommitMessage):
    """The parts that one task has staged, for each table."""

    def __init__(self, parts: tuple[tuple[WrittenPart, ...], ...]) -> None:
        self.parts = parts


class InsertsWriter(DataSourceArrowWriter):
    """Writes several INSERTs in one transaction, which the keeper has begun. It travels like ``Writer``."""

    def __init__(self, begun: BegunInserts) -> None:
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedInserts:
        """Stages the rows of one task, on an executor."""
        from compactor.storage.stores import open_stores  # as in ``stage``
        from compactor.tables.writing.part_files import write_parts

        begun = self._begun
        return StagedInserts(write_parts(begun.works, iterator, task_number(), open_stores(begun.stores)))

    def commit(self, messages: Sequence[StagedInserts | None]) -> None:
        """Names what the tasks have staged for all tables, and commits.

        Raises:
            TransactionAborted: the transaction is lost; nothing was named.
            CommitUnknown: nobody knows whether it was committed.
        """
        staged = [message.parts for message in messages if message is not None]
        parts = tuple(
            tuple(part for task_parts in staged for part in task_parts[target])
            for target in range(len(self._begun.works))
        )
        Keeper().ask(CommitInserts(hold=self._begun.hold, parts=parts))

    def abort(self, messages: Sequence[StagedInserts | None]) -> None:
        """Ends the transaction without a trace; does nothing to one that has ended."""
        Keeper().ask(AbortWrite(hold=self._begun.hold))


class StagedChanges(WriterCommitMessage):
    """The changes that one task has staged."""

    def __init__(self, part: ChangedPart) -> None:
        self.part = part


class ChangeWriter(DataSourceArrowWriter):
    """Writes one UPDATE, DELETE or MERGE, which the keeper has begun. It travels like ``Writer``."""

    def __init__(self, begun: ChangeWork) -> None:
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedChanges:
        """Stages the changes of one task, on an executor."""
        from compactor.storage.stores import open_stores  # as in ``stage``
        from compactor.tables.writing.part_files import write_changes

        return StagedChanges(write_changes(self._begun.work, iterator, task_number(), open_stores(self._begun.stores)))

    def commit(self, messages: Sequence[StagedChanges | None]) -> None:
        """Names what the tasks have staged, and commits.

        Raises:
            TransactionAborted: the transaction is lost; nothing was named.
            CommitUnknown: nobody knows whether it was committed.
        """
        parts = tuple(message.part for message in messages if message is not None)
        Keeper().ask(CommitChange(change=self._begun.change, parts=parts))

    def abort(self, messages: Sequence[StagedChanges | None]) -> None:
        """Ends the transaction without a trace; does nothing to one that has ended."""
        Keeper().ask(AbortChange(change=self._begun.change))


class StagedBatch(StagedRows):
    """The parts that one task of a batch has staged, and their transaction."""

    def __init__(self, hold: Hold, parts: tuple[WrittenPart, ...], query: str) -> None:
        super().__init__(parts, query)
        self.hold = hold


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a stream.

    Spark makes one instance to plan a batch, which it sends to executors, and another one to commit. So the transaction
    begins when an instance is pickled.
    """

    def __init__(self, request: BeginWrite) -> None:
        self._request = request
        self._begun: BegunWrite | None = None

    def __getstate__(self) -> Mapping[str, Any]:
        if self._begun is None:
            self._begun = Keeper().ask(self._request)
        return dict(self.__dict__)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBatch:
        """Stages the rows of one task, on an executor."""
        begun = self._begun
        assert begun is not None
        return StagedBatch(begun.hold, stage(begun, iterator), query_id())

    def commit(self, messages: Sequence[StagedBatch | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Names what the tasks have staged, and commits; does nothing for a batch that is already committed.

        Raises:
            TransactionAborted: the transaction is lost; nothing was named.
            CommitUnknown: nobody knows whether it was committed; the query finds out when it starts again.
            Refused: the stream's name belongs to another checkpoint, or a later batch is committed.
        """
        hold = next(message.hold for message in messages if message is not None)
        Keeper().ask(CommitWrite(hold=hold, parts=collect_parts(messages), batch=batchId, query=find_query(messages)))

    def abort(self, messages: Sequence[StagedBatch | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Aborts the transaction of a batch, even if no task has reported it."""
        request = self._request
        assert request.stream is not None
        Keeper().ask(AbortStream(place=request.place, table=request.table, stream=request.stream))
