"""Events of Hive's notification log, as its ``DbNotificationListener`` writes them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from compactor.compaction.entry import Entry
from compactor.ids import TxnId

MESSAGE_FORMAT = "gzip(json-2.0)"  #: of Hive 4's ``GzipJSONMessageEncoder``, the default


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event that has no number and no time yet.

    Attributes:
        type: Hive's name, of ``EventMessage.EventType``.
        body: the message's own fields; those of every message, time and server, are added when it is written.
    """

    type: str
    database: str | None
    table: str | None
    body: Mapping[str, Any] = field(default_factory=dict)

    def message(self, seconds: int) -> str:
        """Returns the message as it is stored, of an event at ``seconds`` since 1970."""
        text = json.dumps(
            {"server": "", "servicePrincipal": "", **self.body, "timestamp": seconds}, separators=(",", ":")
        )
        return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii")


def compaction_committed(entry: Entry, txn: TxnId) -> Event:
    """Returns the event by which others drop their lists of files of what ``entry`` compacted (HIVE-24329)."""
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
