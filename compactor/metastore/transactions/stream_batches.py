"""The newest committed batch of each stream, so that a batch that comes again is known.

It is kept in Hive's map of replicated transactions, REPL_TXN_MAP, which says of a source's transaction which one it became
here (``TxnHandler.openTxns`` and ``commitTxn`` with a replication policy). Hive touches rows of its own policies only.
"""

# ruff: noqa: SIM300 - upper-case names are tables and columns here, not constants.

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from compactor.database.engine import Database
from compactor.errors import Refused, TransactionAborted
from compactor.ids import TxnId
from compactor.metastore.schema.tables import REPL_TXN_MAP
from compactor.metastore.transactions.commits import InTransaction

_NUMBER = REPL_TXN_MAP.c.RTM_SRC_TXN_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """A batch of a stream into a table. Numbers grow from batch to batch; a table that is made anew knows none."""

    table_id: int
    stream: str
    number: int

    @property
    def policy(self) -> str:
        """The key of the stream, in the place of a replication policy."""
        return f"compactor/{self.table_id}/{self.stream}"


class StreamBatches:
    """Reads and writes the batches of streams in one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def is_committed(self, batch: StreamBatch) -> bool:
        """Tells whether ``batch`` is committed.

        Raises:
            Refused: a later one is.
        """
        with self._database.read() as conn:
            newest = conn.execute(select(func.max(_NUMBER)).where(_of(batch))).scalar()
        if newest is not None:
            _must_be_newest(batch, newest)
        return newest == batch.number

    def recording(self, txn: TxnId, batch: StreamBatch) -> InTransaction:
        """Returns what records ``batch`` within the database transaction that commits ``txn``, in the place of earlier ones.

        It raises Refused if a later batch is committed, and TransactionAborted if another one has committed this one.
        """

        def record(conn: Connection) -> None:
            try:
                row = {"RTM_REPL_POLICY": batch.policy, "RTM_SRC_TXN_ID": batch.number, "RTM_TARGET_TXN_ID": txn}
                with conn.begin_nested():
                    conn.execute(insert(REPL_TXN_MAP), row)
            except IntegrityError as error:
                raise TransactionAborted(
                    f"transaction {txn}: another one has committed batch {batch.number} of stream {batch.stream!r} "
                    "meanwhile; do two queries write under one name?"
                ) from error
            # only now: the insert has waited for a later batch, if that is just taking this one's row away
            numbers = conn.execute(select(_NUMBER).where(_of(batch)).with_for_update()).scalars()
            _must_be_newest(batch, max(numbers))
            conn.execute(delete(REPL_TXN_MAP).where(_of(batch), _NUMBER < batch.number))

        return record


def _of(batch: StreamBatch) -> ColumnElement[bool]:
    return REPL_TXN_MAP.c.RTM_REPL_POLICY == batch.policy


def _must_be_newest(batch: StreamBatch, newest: int) -> None:
    if newest > batch.number:
        raise Refused(
            f"batch {batch.number} of stream {batch.stream!r} comes after batch {newest} was committed, so it is another "
            "stream's, or its checkpoint is older than the table: give a stream with a new checkpoint a new name"
        )
