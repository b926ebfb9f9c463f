"""Events of Hive's notification log, as its ``DbNotificationListener`` writes them, and those of each transaction."""

from __future__ import annotations

import base64
import gzip
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, select

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.entry import Entry
from compactor.database.prepared import in_parts
from compactor.metastore.notifications import thrift_json
from compactor.metastore.notifications.log import EventMaker
from compactor.metastore.notifications.thrift_json import PartitionObject, TableObject
from compactor.metastore.notifications.write_events import CommitNews, log_writes
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import TXN_TO_WRITE_ID

MESSAGE_FORMAT = "gzip(json-2.0)"  #: of Hive 4's ``GzipJSONMessageEncoder``, the default


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event without number and time, which it gets when it is written.

    Attributes:
        type: Hive's name, of ``EventMessage.EventType``.
        body: the fields of this kind of message; time and server are added when it is written.
    """

    type: str
    database: str | None = None
    table: str | None = None
    body: Mapping[str, Any] = field(default_factory=dict)

    def message(self, seconds: int) -> str:
        """Returns the message as it is stored, of an event at ``seconds`` since 1970."""
        text = json.dumps(
            {"server": "", "servicePrincipal": "", **self.body, "timestamp": seconds}, separators=(",", ":")
        )
        return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def txn_opened(txn: TxnId) -> Event:
    """Returns the event of the start of a transaction, for which replication opens its own one."""
    return Event(type="OPEN_TXN", body={"txnIds": None, "fromTxnId": txn, "toTxnId": txn})


def write_id_allocated(txn: TxnId, database: str, table: str, write_id: WriteId) -> Event:
    """Returns the event that names the transaction of a new write ID of a table."""
    return Event(
        type="ALLOC_WRITE_ID_EVENT",
        database=database,
        table=table,
        body={"dbName": database, "tableName": table, "txnIdList": [txn], "writeIdList": [write_id]},
    )


def txn_committed(txn: TxnId, databases: Sequence[str], write_ids: Sequence[WriteId]) -> Event:
    """Returns the event of a commit; its readers look for the writes in TXN_WRITE_NOTIFICATION_LOG."""
    unused = dict.fromkeys(("tables", "partitions", "tableObjs", "partitionObjs", "files"))
    return Event(
        type="COMMIT_TXN", body={"txnid": txn, "writeIds": list(write_ids), "databases": list(databases), **unused}
    )


def txn_aborted(txn: TxnId, databases: Sequence[str], write_ids: Sequence[WriteId]) -> Event:
    """Returns the event of an abort: nobody will ever see these write IDs."""
    return Event(type="ABORT_TXN", body={"txnid": txn, "dbsUpdated": list(databases), "writeIds": list(write_ids)})


def partitions_added(table: TableObject, partitions: Sequence[PartitionObject]) -> Event:
    """Returns the event of new partitions, with the objects that a client of Hive's metastore gets."""
    keys = [key.name for key in table.partition_keys]
    return Event(
        type="ADD_PARTITION",
        database=table.database,
        table=table.name,
        body={
            "db": table.database,
            "table": table.name,
            "tableType": table.type,
            "tableObjJson": thrift_json.table_text(table),
            "partitions": [dict(zip(keys, part.values, strict=True)) for part in partitions],
            "partitionListJson": [thrift_json.partition_text(part) for part in partitions],
            "partitionFiles": [{"partitionName": part.name, "files": []} for part in partitions],
        },
    )


def compaction_committed(entry: Entry, txn: TxnId) -> Event:
    """Returns the event of a compaction, after which others drop their cached lists of files (HIVE-24329)."""
    database, table = entry.entity.database, entry.entity.table
    return Event(
        type="COMMIT_COMPACTION_EVENT",
        database=database,
        table=table,
        body={
            "txnid": txn,
            "compactionId": entry.id,
            "type": entry.type.name,
            "dbname": database,
            "tableName": table,
            "partName": entry.entity.partition,
        },
    )


_AT_ONCE = 1000  #: transactions in one statement


def on_allocation(txn: TxnId, database: str, table: str, write_id: WriteId) -> EventMaker:
    """Makes the event of a newly allocated write ID, after that of the start of ``txn`` if it is its first one."""

    def make(conn: Connection) -> list[Event]:
        is_first = len(_write_ids(conn, [txn])[txn]) == 1
        event = write_id_allocated(txn, database, table, write_id)
        return [txn_opened(txn), event] if is_first else [event]

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
            txn_aborted(txn, sorted({database for database, _, _ in ids}), [number for _, _, number in ids])
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
                    txn_opened(txn),
                    *(write_id_allocated(txn, *allocation) for allocation in ids[txn]),
                ]
            all_events += [*_commits({txn: ids[txn]}), compaction_committed(entry, txn)]
        return all_events

    return make


_WriteIds = Mapping[TxnId, Sequence[tuple[str, str, WriteId]]]


def _commits(ids: _WriteIds) -> list[Event]:
    return [
        txn_committed(txn, sorted({database for database, _, _ in of_txn}), [number for _, _, number in of_txn])
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
