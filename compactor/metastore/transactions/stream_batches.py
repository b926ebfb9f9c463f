"""The newest committed batch of each stream, so that a batch that comes again is known.

It is kept in Hive's map of replicated transactions, REPL_TXN_MAP, which says of a source's transaction which one it became
here (``TxnHandler.openTxns`` and ``commitTxn`` with a replication policy). Hive touches rows of its own policies only.
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
    """A batch of a stream into a table. Numbers grow from batch to batch; a table that is made anew knows none.

    ``query`` is the identity of the checkpoint that counts them, Spark's query id; empty for a program that does so itself.
    """

    table_id: int
    stream: str
    number: int
    query: str = ""

    @property
    def policy(self) -> str:
        """The key of the stream, in the place of a replication policy."""
        return _policy(self.table_id, self.stream)

    @property
    def of_query(self) -> str:
        """The key of the row that says whose stream it is; the stream's own for a program that has no query."""
        return f"{self.policy}/{self.query}" if self.query else self.policy


class StreamBatches:
    """Reads and writes the batches of streams in one metastore."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def is_committed(self, batch: StreamBatch) -> bool:
        """Tells whether ``batch`` is committed.

        Raises:
            Refused: a later one is, or the stream is another query's.
        """
        with self._database.read() as conn:
            _must_be_its_stream(conn, batch)
            newest = conn.execute(select(func.max(_NUMBER)).where(_of(batch))).scalar()
        if newest is not None:
            _must_be_newest(batch, newest)
        return newest == batch.number

    def recording(self, txn: TxnId, batch: StreamBatch) -> InTransaction:
        """Returns what records ``batch`` within the database transaction that commits ``txn``, in the place of earlier ones.

        It raises Refused if a later batch is committed or the stream is another query's, and TransactionAborted if another
        transaction has committed this one.
        """

        def record(conn: Connection) -> None:
            _must_be_its_stream(conn, batch)
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
            _must_be_its_stream(conn, batch, is_recorded=True)
            if batch.query and batch.of_query not in _policies(conn, batch):
                row = {"RTM_REPL_POLICY": batch.of_query, "RTM_SRC_TXN_ID": 0, "RTM_TARGET_TXN_ID": txn}
                conn.execute(insert(REPL_TXN_MAP), row)

        return record

    def forget(self, table_id: int, stream: str) -> bool:
        """Forgets the batches of a stream and whose it is, so that the next query that writes under its name has it; returns
        false if nothing of it was known."""
        policy = _policy(table_id, stream)
        column = REPL_TXN_MAP.c.RTM_REPL_POLICY
        with self._database.write() as conn:
            found = delete(REPL_TXN_MAP).where((column == policy) | column.startswith(f"{policy}/", autoescape=True))
            return conn.execute(found).rowcount > 0


def _policy(table_id: int, stream: str) -> str:
    return f"compactor/{table_id}/{stream}"


def _policies(conn: Connection, batch: StreamBatch) -> set[str]:
    """Returns the keys of all rows of a stream: its batch, and its query if it has one."""
    column = REPL_TXN_MAP.c.RTM_REPL_POLICY
    is_its = _of(batch) | column.startswith(f"{batch.policy}/", autoescape=True)
    return set(conn.execute(select(column).where(is_its)).scalars())


def _must_be_its_stream(conn: Connection, batch: StreamBatch, *, is_recorded: bool = False) -> None:
    """Refuses a batch of another query than the one whose batches are known.

    Args:
        is_recorded: the batch itself is among them.

    Raises:
        Refused: it is one.
    """
    known, own = _policies(conn, batch), {batch.of_query} if batch.query else set()
    others = known - {batch.policy} - own
    if not others and (is_recorded or not known or bool(known - {batch.policy}) == bool(own)):
        return
    owners = " and ".join(_called(key.rpartition("/")[2]) for key in sorted(others)) or _called("")
    raise Refused(
        f"batch {batch.number} of stream {batch.stream!r} is one of {_called(batch.query)}, and the name is that of "
        f"{owners}; a query with a new checkpoint writes under a new name. If it is to go on in the place of the other one, "
        "forget the stream first: compactor.spark_tables.forget_stream(spark, table, stream)"
    )


def _called(query: str) -> str:
    return f"query {query}" if query else "a program without a query of Spark"


def _of(batch: StreamBatch) -> ColumnElement[bool]:
    return REPL_TXN_MAP.c.RTM_REPL_POLICY == batch.policy


def _must_be_newest(batch: StreamBatch, newest: int) -> None:
    if newest > batch.number:
        raise Refused(
            f"batch {batch.number} of stream {batch.stream!r} comes after batch {newest} was committed, so it is another "
            "stream's, or its checkpoint is older than the table: give a stream with a new checkpoint a new name"
        )
