"""Events of Hive's notification log, as its ``DbNotificationListener`` writes them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entry
from compactor.metastore.notifications import thrift_json
from compactor.metastore.notifications.thrift_json import PartitionObject, TableObject

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
