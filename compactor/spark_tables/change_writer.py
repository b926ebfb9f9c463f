"""Writes changed rows: executors stage delete events and new versions, and the keeper names them. Imports no SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.messages import AbortChange, ChangeWork, CommitChange
from compactor.spark_tables.writer import task_number
from compactor.tables.writing.written_part import ChangedPart


class StagedChanges(WriterCommitMessage):
    """The changes that one task has staged."""

    def __init__(self, part: ChangedPart) -> None:
        self.part = part


class ChangeWriter(DataSourceArrowWriter):
    """One UPDATE, DELETE or MERGE, which the keeper has begun. It travels to executors, and to the process that commits."""

    def __init__(self, begun: ChangeWork) -> None:
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedChanges:
        """Stages the changes of one task, on an executor."""
        from compactor.storage.stores import open_stores  # as in ``writer.stage``
        from compactor.tables.writing.change_parts import write_changes

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
