"""The newest committed batch of each stream, by which a repeated batch is recognised.

It is stored in REPL_TXN_MAP, Hive's map from the transactions of a replication source to those here
(``TxnHandler.openTxns`` and ``commitTxn`` with a replication policy). Hive changes only rows of its own policies. The key
is ``compactor/<table id>/<stream>`` for the batch, ``compactor/<table id>/<stream>/<query>`` for the owner.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from compactor.base.errors import Refused, TransactionAborted
from compactor.base.ids import TxnId
from compactor.database.engine import Database
from compactor.metastore.schema.tables import REPL_TXN_MAP
from compactor.metastore.transactions.commit_rows import InTransaction

_NUMBER = REPL_TXN_MAP.c.RTM_SRC_TXN_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBatch:
    """A batch of a stream into a table. Numbers grow from batch to batch.

    A re-created table starts without one.

    ``query`` is the identity of the checkpoint that counts the batches (Spark's query id), empty for a program that counts
    them itself.
    """

    table_id: int
    stream: str
    number: int
    query: str = ""

    @property
    def policy(self) -> str:
        """The key of the stream, in the column of the replication policy."""
        return _policy(self.table_id, self.stream)

    @property
    def of_query(self) -> str:
        """The key of the row that names the owner of the stream.

        The stream's key for a program without a query.
        """
        return f"{self.policy}/{self.query}" if self.query else self.policy


class StreamBatches:
    """Reads and writes the batches of streams in one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def is_committed(self, batch: StreamBatch) -> bool:
        """Returns true if ``batch`` is committed.

        Raises:
            Refused: a later batch is committed, or the stream belongs to another query.
        """
        with self._database.read() as conn:
            _must_own_stream(conn, batch)
            newest = conn.execute(select(func.max(_NUMBER)).where(_is_batch_of(batch))).scalar()
        if newest is not None:
            _must_be_newest(batch, newest)
        return newest == batch.number

    def record(self, txn: TxnId, batch: StreamBatch) -> InTransaction:
        """Returns a function that records ``batch`` in the database transaction that commits ``txn``.

        The row replaces earlier batches. The function raises Refused if a later batch is committed or the stream belongs
        to another query, and TransactionAborted if another transaction has committed this batch.
        """

        def record_batch(conn: Connection) -> None:
            _must_own_stream(conn, batch)
            try:
                row = {"RTM_REPL_POLICY": batch.policy, "RTM_SRC_TXN_ID": batch.number, "RTM_TARGET_TXN_ID": txn}
                with conn.begin_nested():
                    conn.execute(insert(REPL_TXN_MAP), row)
            except IntegrityError as error:
                raise TransactionAborted(
                    f"transaction {txn}: another transaction has committed batch {batch.number} of stream {batch.stream!r} "
                    "meanwhile; check whether two queries write under one name"
                ) from error
            # Only after the insert, which waits for a later batch that is just deleting this one's row.
            numbers = conn.execute(select(_NUMBER).where(_is_batch_of(batch)).with_for_update()).scalars()
            _must_be_newest(batch, max(numbers))
            conn.execute(delete(REPL_TXN_MAP).where(_is_batch_of(batch), _NUMBER < batch.number))
            _must_own_stream(conn, batch, is_recorded=True)
            if batch.query and batch.of_query not in _policies(conn, batch):
                row = {"RTM_REPL_POLICY": batch.of_query, "RTM_SRC_TXN_ID": 0, "RTM_TARGET_TXN_ID": txn}
                conn.execute(insert(REPL_TXN_MAP), row)

        return record_batch

    def forget(self, table_id: int, stream: str) -> bool:
        """Deletes the batches and the owner of a stream, so that another query may use its name.

        Returns false if the stream was unknown.
        """
        policy = _policy(table_id, stream)
        column = REPL_TXN_MAP.c.RTM_REPL_POLICY
        with self._database.write() as conn:
            query = delete(REPL_TXN_MAP).where((column == policy) | column.startswith(f"{policy}/", autoescape=True))
            return conn.execute(query).rowcount > 0


def _policy(table_id: int, stream: str) -> str:
    return f"compactor/{table_id}/{stream}"


def _policies(conn: Connection, batch: StreamBatch) -> set[str]:
    """Returns the keys of the rows of a stream: that of its batch, and that of its query if it has one."""
    column = REPL_TXN_MAP.c.RTM_REPL_POLICY
    is_its = _is_batch_of(batch) | column.startswith(f"{batch.policy}/", autoescape=True)
    return set(conn.execute(select(column).where(is_its)).scalars())


def _must_own_stream(conn: Connection, batch: StreamBatch, *, is_recorded: bool = False) -> None:
    """Checks that the recorded batches of the stream belong to the query of ``batch``.

    Args:
        is_recorded: ``batch`` is already recorded.

    Raises:
        Refused: the stream belongs to another query.
    """
    known, own = _policies(conn, batch), {batch.of_query} if batch.query else set()
    others = known - {batch.policy} - own
    if not others and (is_recorded or not known or bool(known - {batch.policy}) == bool(own)):
        return
    owners = " and ".join(_describe(key.rpartition("/")[2]) for key in sorted(others)) or _describe("")
    raise Refused(
        f"batch {batch.number} of stream {batch.stream!r} comes from {_describe(batch.query)}, but the name belongs to "
        f"{owners}; a query with a new checkpoint needs a new name. If it replaces the other one, "
        "forget the stream first: compactor.spark_tables.forget_stream(spark, table, stream)"
    )


def _describe(query: str) -> str:
    return f"query {query}" if query else "a program without a query of Spark"


def _is_batch_of(batch: StreamBatch) -> ColumnElement[bool]:
    return REPL_TXN_MAP.c.RTM_REPL_POLICY == batch.policy


def _must_be_newest(batch: StreamBatch, newest: int) -> None:
    if newest > batch.number:
        raise Refused(
            f"batch {batch.number} of stream {batch.stream!r} comes after batch {newest} was committed, so it belongs to "
            "another stream, or its checkpoint is older than the table: give a stream with a new checkpoint a new name"
        )
