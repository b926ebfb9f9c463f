"""Writes rows into several tables: executors stage them, and the keeper names them in one transaction. Imports no SQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.messages import AbortWrite, BegunInserts, CommitInserts
from compactor.spark_tables.writer import task_number
from compactor.tables.writing.written_part import WrittenPart


class StagedInserts(WriterCommitMessage):
    """The parts that one task has staged, for each table."""

    def __init__(self, parts: tuple[tuple[WrittenPart, ...], ...]) -> None:
        self.parts = parts


class InsertsWriter(DataSourceArrowWriter):
    """Several INSERTs, which the keeper has begun. They travel to executors, and to the process that commits."""

    def __init__(self, begun: BegunInserts) -> None:
        self._begun = begun

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedInserts:
        """Stages the rows of one task, on an executor."""
        from compactor.storage.stores import open_stores  # as in ``writer.stage``
        from compactor.tables.writing.inserts import write_parts

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
            tuple(part for of_task in staged for part in of_task[target]) for target in range(len(self._begun.works))
        )
        Keeper().ask(CommitInserts(hold=self._begun.hold, parts=parts))

    def abort(self, messages: Sequence[StagedInserts | None]) -> None:
        """Ends the transaction without a trace; does nothing to one that has ended."""
        Keeper().ask(AbortWrite(hold=self._begun.hold))
