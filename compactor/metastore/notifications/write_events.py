"""The news of a program's writes: new partitions, and rows of TXN_WRITE_NOTIFICATION_LOG.

By these rows Impala's catalog reloads tables with new files, and Hive's replication copies the files.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, insert

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity
from compactor.database.clock import now_ms
from compactor.metastore.notifications.catalog_rows import read_partitions, read_table
from compactor.metastore.notifications.events import Event, partitions_added
from compactor.metastore.notifications.thrift_json import PartitionObject, TableObject, partition_text, table_text
from compactor.metastore.schema.counter_rows import draw_catalog_ids, has_drawn_catalog_ids
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import TXN_WRITE_NOTIFICATION_LOG

_SEQUENCE = "MTxnWriteNotificationLog"
_BETWEEN_FILES = "]"  #: Hive's ``ReplChangeManager.TXN_WRITE_EVENT_FILE_SEPARATOR``


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """The rows that a transaction wrote into a table without partitions, or into a partition."""

    entity: Entity
    write_id: WriteId
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)  #: names of files by base or delta
    is_new: bool = False  #: this transaction adds the partition to the catalog


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRow:
    """A row of TXN_WRITE_NOTIFICATION_LOG that has no id yet."""

    write: Write
    table: str
    partition: str | None
    files: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitNews:
    """Events and rows that go with the event of a commit."""

    events: tuple[Event, ...] = ()
    rows: tuple[WriteRow, ...] = ()


def read_news(conn: Connection, writes: Sequence[Write]) -> CommitNews:
    """Returns the news of ``writes``; tables and partitions that no longer exist are left out.

    Read it before the commit locks TXN_LOCK_TBL. The locks of the writing transaction keep the objects as they are.
    """
    by_table: defaultdict[tuple[str, str], list[Write]] = defaultdict(list)
    for write in writes:
        by_table[write.entity.database, write.entity.table].append(write)
    events: list[Event] = []
    rows: list[WriteRow] = []
    for (database, name), of_table in sorted(by_table.items()):
        table = read_table(conn, database, name)
        if table is not None:
            parts = read_partitions(
                conn, table, [write.entity.partition for write in of_table if write.entity.partition]
            )
            new = [parts[p] for write in of_table if write.is_new and (p := write.entity.partition) in parts]
            events += [partitions_added(table, new)] if new else []
            rows += _rows(table, parts, of_table)
    return CommitNews(events=tuple(events), rows=tuple(rows))


def _rows(table: TableObject, parts: Mapping[str, PartitionObject], writes: Sequence[Write]) -> Iterator[WriteRow]:
    text = table_text(table)
    for write in writes:
        part = parts.get(write.entity.partition or "")
        if write.files and (part is not None) == (write.entity.partition is not None):
            location = (table if part is None else part).storage.location or ""
            yield WriteRow(
                write=write,
                table=text,
                partition=None if part is None else partition_text(part),
                files=_BETWEEN_FILES.join(
                    _encode_file(location, directory, name)
                    for directory, names in write.files.items()
                    for name in names
                ),
            )


def _encode_file(location: str, directory: str, name: str) -> str:
    """Returns a file in the form of Hive's ``ReplChangeManager``.

    That is its URI, checksum, place of a copy, and directory.

    Checksum and copy stay empty: ``hdfs://n/t/delta_1_1/bucket_00000###delta_1_1``.
    """
    return f"{location.rstrip('/')}/{directory}/{name}###{directory}"


def log_writes(conn: Connection, dialect: Dialect, txn: TxnId, rows: Sequence[WriteRow]) -> None:
    """Writes ``rows`` into TXN_WRITE_NOTIFICATION_LOG, if Hive itself writes such rows here.

    Hive does so with hive.metastore.dml.events.
    """
    if not rows or not has_drawn_catalog_ids(conn, _SEQUENCE):
        return
    first, seconds = draw_catalog_ids(conn, dialect, _SEQUENCE, len(rows)), now_ms(conn) // 1000
    values = [
        {
            "WNL_ID": first + at,
            "WNL_TXNID": txn,
            "WNL_WRITEID": row.write.write_id,
            "WNL_DATABASE": row.write.entity.database,
            "WNL_TABLE": row.write.entity.table,
            "WNL_PARTITION": row.write.entity.partition or "",
            "WNL_TABLE_OBJ": row.table,
            "WNL_PARTITION_OBJ": row.partition,
            "WNL_FILES": row.files,
            "WNL_EVENT_TIME": seconds,
        }
        for at, row in enumerate(rows)
    ]
    conn.execute(insert(TXN_WRITE_NOTIFICATION_LOG), values)
