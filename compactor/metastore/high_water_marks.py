"""Numbers of a metastore that only grow, and the tokens that identify its database (PROTOCOL 11.2).

Tokens are rows of AUX_TABLE, so they are restored with the rest of the database. MT_KEY1 names the metastore, MT_KEY2 is
the number of the token. MT_COMMENT has the token, its time, and the largest number in files: ``3f9a… 1764277604000 17``.
Hive reads none of these rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from sqlalchemy import ColumnElement, Connection, case, delete, func, insert, select, update

from compactor.acid import txn_states
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.mark_comparison import KEPT_TOKENS, Marks, MarkToken, Present, TableMark
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.metastore.catalog.locations import in_catalog
from compactor.metastore.mutex import PREFIX
from compactor.metastore.schema.counter_rows import try_insert
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    AUX_TABLE,
    DBS,
    NEXT_COMPACTION_QUEUE_ID,
    NEXT_LOCK_ID,
    NEXT_WRITE_ID,
    TBLS,
    TXN_TO_WRITE_ID,
    TXNS,
)
from compactor.metastore.transactions.shown_transactions import NewTransaction
from compactor.metastore.transactions.transaction_rows import must_be_open

_AUX = AUX_TABLE.c
_LONGEST_NAME = 64  #: longest name of a metastore in MT_KEY1, which has the digest of a longer name
AFTER_AGREEMENT = (
    1_000  #: numbers to skip, so that no token that is being written gets a higher number than the new one
)
_NWI = NEXT_WRITE_ID.c


class StoredMarks:
    """Reads the numbers, writes tokens, and raises the counters of transactions and write IDs.

    Skipped numbers get no row, as with Hive's ``seedTxnId``, so these transactions and write IDs count as committed.
    """

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    def present(self, metastore: str, txns: Collection[TxnId] = ()) -> Present:
        """Returns the numbers of the database now, with the start times of ``txns``.

        It takes a fixed number of statements.
        """
        with self._database.read() as conn:
            return self._present(conn, metastore, txns)

    def tokens(self, metastore: str) -> tuple[MarkToken, ...]:
        """Returns the newest tokens, in one statement."""
        with self._database.read() as conn:
            return tuple(_tokens(conn, metastore))

    @retried
    def mark(self, metastore: str, text: str, *, seen: int, txns: Collection[TxnId] = ()) -> tuple[MarkToken, Present]:
        """Writes the token ``text`` under the next number; returns it and the numbers as of this transaction.

        Args:
            seen: the largest number outside of the database.
            txns: transactions whose start times to read.
        """
        with self._database.write() as conn:
            now = self._present(conn, metastore, txns)
            number = 1 + max((token.number for token in now.tokens), default=0)
            while True:
                token = MarkToken(number=number, text=text, at=now.now_ms, seen=seen)
                if try_insert(conn, insert(AUX_TABLE).values(**_row(metastore, token))):
                    break
                number += 1  # another process has taken this number
            conn.execute(delete(AUX_TABLE).where(_is_token_of(metastore), _AUX.MT_KEY2 <= number - KEPT_TOKENS))
            return token, now

    @retried
    def replace_tokens(self, metastore: str, text: str, *, above: int) -> tuple[MarkToken, Present]:
        """Replaces all tokens by ``text``, under a number larger than every number used so far."""
        with self._database.write() as conn:
            now = self._present(conn, metastore, ())
            number = AFTER_AGREEMENT + max(above, *(token.number for token in now.tokens), 0)
            token = MarkToken(number=number, text=text, at=now.now_ms)
            conn.execute(delete(AUX_TABLE).where(_is_token_of(metastore)))
            conn.execute(insert(AUX_TABLE).values(**_row(metastore, token)))
            return token, now

    def _present(self, conn: Connection, metastore: str, txns: Collection[TxnId]) -> Present:
        is_open = TXNS.c.TXN_STATE == txn_states.OPEN
        query = select(
            func.max(TXNS.c.TXN_ID),
            func.max(case((~is_open, TXNS.c.TXN_ID), else_=0)),
            func.sum(case((is_open, 1), else_=0)),
        )
        newest, ended, unfinished = conn.execute(query).one()
        if not self._dialect.remembers_commits:  # then a separate counter never goes back
            newest = ended = self._dialect.newest(conn)
        ids = sorted({*txns, TxnId(ended or 0)})
        starts = select(TXNS.c.TXN_ID, TXNS.c.TXN_STARTED).where(TXNS.c.TXN_ID.in_(ids), TXNS.c.TXN_STARTED > 0)
        marks = Marks(
            newest=TxnId(ended or 0),
            unfinished=int(unfinished or 0),
            next_lock=int(conn.execute(select(func.max(NEXT_LOCK_ID.c.NL_NEXT))).scalar() or 0),
            next_compaction=int(conn.execute(select(func.max(NEXT_COMPACTION_QUEUE_ID.c.NCQ_NEXT))).scalar() or 0),
            starts={TxnId(row.TXN_ID): int(row.TXN_STARTED) for row in conn.execute(starts)},
            tables=_tables(conn),
        )
        return Present(
            now_ms=now_ms(conn), newest=TxnId(newest or 0), marks=marks, tokens=tuple(_tokens(conn, metastore))
        )

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
        """Gives the open transaction ``txn`` this write ID, and raises the table's counter above it.

        Once ``txn`` has ended, snapshots reach up to that write ID. Returns false if the counter is above it already.
        """
        database, table = database.lower(), table.lower()
        here = (_NWI.NWI_DATABASE == database) & (_NWI.NWI_TABLE == table)
        with self._database.write() as conn:
            must_be_open(conn, self._dialect, txn)
            if conn.execute(select(_NWI.NWI_NEXT).where(here)).first() is None:
                try_insert(conn, insert(NEXT_WRITE_ID).values(NWI_DATABASE=database, NWI_TABLE=table, NWI_NEXT=1))
            raised = update(NEXT_WRITE_ID).where(here, _NWI.NWI_NEXT <= write_id)
            if conn.execute(raised.values(NWI_NEXT=write_id + 1)).rowcount == 0:
                return False
            mapping = {"T2W_TXNID": txn, "T2W_DATABASE": database, "T2W_TABLE": table, "T2W_WRITEID": write_id}
            conn.execute(insert(TXN_TO_WRITE_ID).values(**mapping))
            return True


def _tables(conn: Connection) -> dict[int, TableMark]:
    """Reads the next write ID of each existing table; soft deletes leave rows of other tables."""
    nwi = NEXT_WRITE_ID.c
    query = select(TBLS.c.TBL_ID, DBS.c.NAME, TBLS.c.TBL_NAME, TBLS.c.CREATE_TIME, nwi.NWI_NEXT)
    query = query.join(DBS, DBS.c.DB_ID == TBLS.c.DB_ID)
    query = query.join(NEXT_WRITE_ID, (nwi.NWI_DATABASE == DBS.c.NAME) & (nwi.NWI_TABLE == TBLS.c.TBL_NAME))
    return {
        row.TBL_ID: TableMark(
            name=f"{row.NAME}.{row.TBL_NAME}", next_write_id=WriteId(row.NWI_NEXT), created=int(row.CREATE_TIME or 0)
        )
        for row in conn.execute(query.where(in_catalog()))
    }


def _tokens(conn: Connection, metastore: str) -> Iterator[MarkToken]:
    query = select(_AUX.MT_KEY2, _AUX.MT_COMMENT).where(_is_token_of(metastore)).order_by(_AUX.MT_KEY2.desc())
    for row in conn.execute(query.limit(KEPT_TOKENS)):
        text, *numbers = (row.MT_COMMENT or "").split(" ")
        if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
            yield MarkToken(number=row.MT_KEY2, text=text, at=int(numbers[0]), seen=int(numbers[1]))


def _row(metastore: str, token: MarkToken) -> dict[str, object]:
    return {
        "MT_KEY1": _key(metastore),
        "MT_KEY2": token.number,
        "MT_COMMENT": f"{token.text} {token.at} {token.seen}",
    }


def _is_token_of(metastore: str) -> ColumnElement[bool]:
    return _AUX.MT_KEY1 == _key(metastore)


def _key(metastore: str) -> str:
    if len(metastore) > _LONGEST_NAME or not metastore.isascii():
        metastore = hashlib.sha256(metastore.encode()).hexdigest()
    return f"{PREFIX}memory:{metastore}"
