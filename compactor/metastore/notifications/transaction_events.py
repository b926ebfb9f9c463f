"""Events of transactions that write: their start with their first write ID, each write ID, and their end.

In the order and in the database transactions in which Hive tells it. Write IDs are told as they are allocated: replication
gives the same ones to its copy of the table, one after the other, and Impala takes those that it was not told of for open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, select

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.entry import Entry
from compactor.database.parts import parts
from compactor.metastore.notifications import events
from compactor.metastore.notifications.events import Event
from compactor.metastore.notifications.log import Making
from compactor.metastore.notifications.write_events import Told, log_writes
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import TXN_TO_WRITE_ID

_AT_ONCE = 1000  #: transactions in one statement


def allocated(txn: TxnId, database: str, table: str, write_id: WriteId) -> Making:
    """Tells of a write ID that this database transaction has allocated, and of ``txn`` if it is its first."""

    def make(conn: Connection) -> list[Event]:
        is_first = len(_write_ids(conn, [txn])[txn]) == 1
        told = events.write_id_allocated(txn, database, table, write_id)
        return [events.txn_opened(txn), told] if is_first else [told]

    return make


def allocated_all(write_ids: Mapping[TxnId, WriteId], database: str, table: str) -> Making:
    """Tells of several write IDs that this database transaction has allocated, as ``allocated`` does of each."""

    def make(conn: Connection) -> list[Event]:
        return [
            event for txn, write_id in write_ids.items() for event in allocated(txn, database, table, write_id)(conn)
        ]

    return make


def committed(txn: TxnId, dialect: Dialect, told: Told | None = None) -> Making:
    """Tells of the commit of ``txn``, and what it wrote, if it has a write ID."""

    def make(conn: Connection) -> list[Event]:
        ended = _commits(_write_ids(conn, [txn]))
        if told is None or not ended:
            return ended
        log_writes(conn, dialect, txn, told.rows)
        return [*told.events, *ended]

    return make


def aborted(txns: Collection[TxnId]) -> Making:
    """Tells that those of ``txns`` that have write IDs are aborted."""

    def make(conn: Connection) -> list[Event]:
        return [
            events.txn_aborted(txn, sorted({database for database, _, _ in ids}), [number for _, _, number in ids])
            for txn, ids in _write_ids(conn, txns).items()
        ]

    return make


def compactions_committed(entries: Sequence[tuple[Entry, TxnId]], known: Collection[TxnId]) -> Making:
    """Tells of the commit of compactions.

    Args:
        known: those of their transactions whose write IDs were told of as they were allocated. Others have got theirs in
            this database transaction, for statistics.
    """

    def make(conn: Connection) -> list[Event]:
        ids = _write_ids(conn, [txn for _, txn in entries])
        made: list[Event] = []
        for entry, txn in entries:
            if ids[txn] and txn not in known:
                made += [events.txn_opened(txn), *(events.write_id_allocated(txn, *one) for one in ids[txn])]
            made += [*_commits({txn: ids[txn]}), events.compaction_committed(entry, txn)]
        return made

    return make


_WriteIds = Mapping[TxnId, Sequence[tuple[str, str, WriteId]]]


def _commits(ids: _WriteIds) -> list[Event]:
    return [
        events.txn_committed(txn, sorted({database for database, _, _ in of_txn}), [number for _, _, number in of_txn])
        for txn, of_txn in ids.items()
        if of_txn
    ]


def _write_ids(conn: Connection, txns: Collection[TxnId]) -> defaultdict[TxnId, list[tuple[str, str, WriteId]]]:
    """Returns database, table and write ID of each table into which ``txns`` may have written, by their names."""
    columns = TXN_TO_WRITE_ID.c
    found: defaultdict[TxnId, list[tuple[str, str, WriteId]]] = defaultdict(list)
    for some in parts(sorted(txns), _AT_ONCE):
        query = select(TXN_TO_WRITE_ID).where(columns.T2W_TXNID.in_(some))
        for row in conn.execute(query.order_by(columns.T2W_TXNID, columns.T2W_DATABASE, columns.T2W_TABLE)):
            found[TxnId(row.T2W_TXNID)].append((row.T2W_DATABASE, row.T2W_TABLE, WriteId(row.T2W_WRITEID)))
    return found
