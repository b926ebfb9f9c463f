"""Writes the batches of a stream, each with one commit that knows its number. Imports no SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter

from compactor.spark_tables.client import Keeper
from compactor.spark_tables.messages import AbortStream, BeginWrite, BegunWrite, CommitWrite, Hold
from compactor.spark_tables.writer import Staged, parts_of, query_id, query_of, stage
from compactor.tables.writing.written_part import WrittenPart


class StagedOfBatch(Staged):
    """The parts that one task of a batch has staged, and the transaction that they belong to."""

    def __init__(self, hold: Hold, parts: tuple[WrittenPart, ...], query: str) -> None:
        super().__init__(parts, query)
        self.hold = hold


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of a stream. Spark makes one where it plans a batch, which travels to executors, and another one where it
    commits, so a transaction begins when a writer is about to travel."""

    def __init__(self, request: BeginWrite) -> None:
        self._request = request
        self._begun: BegunWrite | None = None

    def __getstate__(self) -> Mapping[str, Any]:
        if self._begun is None:
            self._begun = Keeper().ask(self._request)
        return dict(self.__dict__)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedOfBatch:
        """Stages the rows of one task, on an executor."""
        begun = self._begun
        assert begun is not None
        return StagedOfBatch(begun.hold, stage(begun, iterator), query_id())

    def commit(self, messages: Sequence[StagedOfBatch | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Names what the tasks have staged, and commits; does nothing for a batch that is committed already.

        Raises:
            TransactionAborted: the transaction is lost; nothing was named.
            CommitUnknown: nobody knows whether it was committed; the query finds out when it is started again.
            Refused: the stream's name belongs to another checkpoint, or a later batch is committed.
        """
        hold = next(message.hold for message in messages if message is not None)
        Keeper().ask(CommitWrite(hold=hold, parts=parts_of(messages), batch=batchId, query=query_of(messages)))

    def abort(self, messages: Sequence[StagedOfBatch | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Ends the transaction of a batch without a trace, also where no task has told of it."""
        request = self._request
        assert request.stream is not None
        Keeper().ask(AbortStream(place=request.place, table=request.table, stream=request.stream))
