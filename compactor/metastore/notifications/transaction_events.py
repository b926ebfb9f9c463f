"""Events of transactions that write: their start, each write ID, and their end.

The start has the first write ID.

Order and database transactions are those of Hive. Each write ID gets its event when it is allocated: replication allocates
the same ones to its copy of the table, one after the other, and Impala takes a write ID without an event for open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, select

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entry
from compactor.database.prepared import in_parts
from compactor.metastore.notifications import events
from compactor.metastore.notifications.events import Event
from compactor.metastore.notifications.notification_log import EventMaker
from compactor.metastore.notifications.write_events import CommitNews, log_writes
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import TXN_TO_WRITE_ID

_AT_ONCE = 1000  #: transactions in one statement


def on_allocation(txn: TxnId, database: str, table: str, write_id: WriteId) -> EventMaker:
    """Makes the event of a newly allocated write ID.

    If it is the first of ``txn``, the event of its start comes before.
    """

    def make(conn: Connection) -> list[Event]:
        is_first = len(_write_ids(conn, [txn])[txn]) == 1
        event = events.write_id_allocated(txn, database, table, write_id)
        return [events.txn_opened(txn), event] if is_first else [event]

    return make


def on_allocations(write_ids: Mapping[TxnId, WriteId], database: str, table: str) -> EventMaker:
    """Makes the events of several newly allocated write IDs; see ``on_allocation``."""

    def make(conn: Connection) -> list[Event]:
        return [
            event
            for txn, write_id in write_ids.items()
            for event in on_allocation(txn, database, table, write_id)(conn)
        ]

    return make


def on_commit(txn: TxnId, dialect: Dialect, news: CommitNews | None = None) -> EventMaker:
    """Makes the events of the commit of ``txn`` and of its writes, if it has a write ID."""

    def make(conn: Connection) -> list[Event]:
        ended = _commits(_write_ids(conn, [txn]))
        if news is None or not ended:
            return ended
        log_writes(conn, dialect, txn, news.rows)
        return [*news.events, *ended]

    return make


def on_abort(txns: Collection[TxnId]) -> EventMaker:
    """Makes the events of the aborts of those ``txns`` that have write IDs."""

    def make(conn: Connection) -> list[Event]:
        return [
            events.txn_aborted(txn, sorted({database for database, _, _ in ids}), [number for _, _, number in ids])
            for txn, ids in _write_ids(conn, txns).items()
        ]

    return make


def on_compaction_commits(entries: Sequence[tuple[Entry, TxnId]], announced: Collection[TxnId]) -> EventMaker:
    """Makes the events of the commits of compactions.

    Args:
        announced: transactions whose write IDs already have events. The others got their write IDs in this database
            transaction, for statistics.
    """

    def make(conn: Connection) -> list[Event]:
        ids = _write_ids(conn, [txn for _, txn in entries])
        all_events: list[Event] = []
        for entry, txn in entries:
            if ids[txn] and txn not in announced:
                all_events += [
                    events.txn_opened(txn),
                    *(events.write_id_allocated(txn, *allocation) for allocation in ids[txn]),
                ]
            all_events += [*_commits({txn: ids[txn]}), events.compaction_committed(entry, txn)]
        return all_events

    return make


_WriteIds = Mapping[TxnId, Sequence[tuple[str, str, WriteId]]]


def _commits(ids: _WriteIds) -> list[Event]:
    return [
        events.txn_committed(txn, sorted({database for database, _, _ in of_txn}), [number for _, _, number in of_txn])
        for txn, of_txn in ids.items()
        if of_txn
    ]


def _write_ids(conn: Connection, txns: Collection[TxnId]) -> defaultdict[TxnId, list[tuple[str, str, WriteId]]]:
    """Returns the write IDs of ``txns`` with their database and table, sorted by these names."""
    columns = TXN_TO_WRITE_ID.c
    write_ids: defaultdict[TxnId, list[tuple[str, str, WriteId]]] = defaultdict(list)
    for batch in in_parts(sorted(txns), _AT_ONCE):
        query = select(TXN_TO_WRITE_ID).where(columns.T2W_TXNID.in_(batch))
        for row in conn.execute(query.order_by(columns.T2W_TXNID, columns.T2W_DATABASE, columns.T2W_TABLE)):
            write_ids[TxnId(row.T2W_TXNID)].append((row.T2W_DATABASE, row.T2W_TABLE, WriteId(row.T2W_WRITEID)))
    return write_ids
