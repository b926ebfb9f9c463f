"""Raises the counters of a restored metastore above the numbers in names of files (PROTOCOL 11.4)."""

from __future__ import annotations

from sqlalchemy import insert, select, update

from compactor.acid import txn_states
from compactor.base.ids import TxnId, WriteId
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.single_rows import inserted
from compactor.metastore.schema.tables import NEXT_WRITE_ID, TXN_TO_WRITE_ID
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.metastore.transactions.transaction_rows import must_be_open

_NWI = NEXT_WRITE_ID.c


class Counters:
    """Raises, and never lowers, the counters of TXNS and NEXT_WRITE_ID.

    Skipped numbers get no row, as with Hive's ``seedTxnId``, so these transactions and write IDs count as committed.
    """

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    @retried
    def raise_transactions(self, newest: TxnId, opening: NewTransaction) -> bool:
        """Makes ``newest`` the newest transaction, committed; returns false if a newer one exists.

        Its row is that of ``opening``.
        """
        with self._database.write() as conn:
            self._dialect.lock_transactions(conn, exclusive=True)
            if self._dialect.newest(conn) >= newest:
                return False
            row = opening.row(self._dialect.last_type, now_ms(conn))
            self._dialect.raise_transactions(conn, newest, {**row, "TXN_STATE": txn_states.COMMITTED})
            return True

    @retried
    def raise_write_ids(self, txn: TxnId, database: str, table: str, write_id: WriteId) -> bool:
        """Gives the open transaction ``txn`` the write ID ``write_id`` and raises the table's counter above it.

        Once ``txn`` has ended, snapshots reach up to that write ID. Returns false if the counter is above it already.
        """
        database, table = database.lower(), table.lower()
        here = (_NWI.NWI_DATABASE == database) & (_NWI.NWI_TABLE == table)
        with self._database.write() as conn:
            must_be_open(conn, self._dialect, txn)
            if conn.execute(select(_NWI.NWI_NEXT).where(here)).first() is None:
                inserted(conn, insert(NEXT_WRITE_ID).values(NWI_DATABASE=database, NWI_TABLE=table, NWI_NEXT=1))
            raised = update(NEXT_WRITE_ID).where(here, _NWI.NWI_NEXT <= write_id)
            if conn.execute(raised.values(NWI_NEXT=write_id + 1)).rowcount == 0:
                return False
            mapping = {"T2W_TXNID": txn, "T2W_DATABASE": database, "T2W_TABLE": table, "T2W_WRITEID": write_id}
            conn.execute(insert(TXN_TO_WRITE_ID).values(**mapping))
            return True
