"""Rows of COMPACTION_QUEUE and COMPLETED_COMPACTIONS as ``Entry`` values and back."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, RowMapping, Table

from compactor.compaction.entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.errors import NotSupported
from compactor.ids import TxnId, WriteId
from compactor.metastore import stringable
from compactor.metastore.tables import COMPACTION_QUEUE, COMPLETED_COMPACTIONS

#: Columns that move from the queue to the history as they are.
MOVED = (
    "ID",
    "DATABASE",
    "TABLE",
    "PARTITION",
    "TYPE",
    "TBLPROPERTIES",
    "WORKER_ID",
    "ENQUEUE_TIME",
    "START",
    "RUN_AS",
    "HIGHEST_WRITE_ID",
    "META_INFO",
    "HADOOP_JOB_ID",
    "NEXT_TXN_ID",
    "TXN_ID",
    "COMMIT_TIME",
    "INITIATOR_ID",
    "INITIATOR_VERSION",
    "WORKER_VERSION",
    "POOL_NAME",
    "NUMBER_OF_BUCKETS",
    "ORDER_BY",
)


def queued(row: RowMapping) -> Entry:
    """A row of COMPACTION_QUEUE."""
    retention, cleaner = row["CQ_RETRY_RETENTION"], row["CQ_CLEANER_START"]
    return _entry(row, "CQ", end=None, cleaner_start=_set(cleaner), retry_retention=retention or 0)


def ended(row: RowMapping) -> Entry:
    """A row of COMPLETED_COMPACTIONS. Hive writes 0 there for what was never set; it reads as None."""
    return _entry(row, "CC", end=_set(row["CC_END"]), cleaner_start=None, retry_retention=0)


def entity_is(table: Table, prefix: str, entity: Entity, *partitions: str | None) -> ColumnElement[bool]:
    """That a row is about ``entity``, or about its table and one of ``partitions`` when some are given."""
    columns = table.c
    names = partitions or (entity.partition,)
    partition = columns[f"{prefix}_PARTITION"]
    here = partition.is_(None) if names == (None,) else partition.in_(names)
    return (columns[f"{prefix}_DATABASE"] == entity.database) & (columns[f"{prefix}_TABLE"] == entity.table) & here


def history_row(row: RowMapping, state: State, now: int, error: str | None) -> dict[str, Any]:
    """The row of COMPLETED_COMPACTIONS that a queue row becomes."""
    values = {f"CC_{name}": row[f"CQ_{name}"] for name in MOVED}
    values |= {"CC_STATE": state.value, "CC_END": now, "CC_ERROR_MESSAGE": error or row["CQ_ERROR_MESSAGE"]}
    if values["CC_START"] is None:
        values["CC_START"] = 0  # as Hive does; its SHOW COMPACTIONS and history purge read it
    return values


def _set(value: int | None) -> int | None:
    """None for what Hive writes when a number was never set: 0, or -1 for CQ_CLEANER_START."""
    return value if value is not None and value > 0 else None


def _entry(row: RowMapping, prefix: str, *, end: int | None, cleaner_start: int | None, retry_retention: int) -> Entry:
    def get(name: str) -> Any:
        return row[f"{prefix}_{name}"]

    entity = Entity(database=get("DATABASE"), table=get("TABLE"), partition=get("PARTITION"))
    txn, following, highest = _set(get("TXN_ID")), _set(get("NEXT_TXN_ID")), get("HIGHEST_WRITE_ID")
    return Entry(
        id=get("ID"),
        entity=entity,
        state=State(get("STATE")),
        type=_type(get("ID"), get("TYPE")),
        properties=stringable.decode(get("TBLPROPERTIES")),
        pool=get("POOL_NAME"),
        worker_id=get("WORKER_ID"),
        run_as=get("RUN_AS"),
        enqueue_time=_set(get("ENQUEUE_TIME")),
        start=_set(get("START")),
        end=end,
        highest_write_id=None if highest is None else WriteId(highest),
        txn_id=None if txn is None else TxnId(txn),
        next_txn_id=None if following is None else TxnId(following),
        commit_time=_set(get("COMMIT_TIME")),
        cleaner_start=cleaner_start,
        retry_retention=retry_retention,
        job_id=get("HADOOP_JOB_ID"),
        error=get("ERROR_MESSAGE"),
        initiator_id=get("INITIATOR_ID"),
        initiator_version=get("INITIATOR_VERSION"),
        worker_version=get("WORKER_VERSION"),
        buckets=_set(get("NUMBER_OF_BUCKETS")),
        order_by=get("ORDER_BY"),
    )


def _type(entry_id: int, code: str) -> CompactionType:
    try:
        return CompactionType(code)
    except ValueError:
        known = ", ".join(f"{kind.value} {kind.label}" for kind in CompactionType)
        raise NotSupported(
            f"compaction {entry_id} has type {code!r}; known are {known}. Leave it to the engine that asked for it"
        ) from None


CQ = COMPACTION_QUEUE.c
CC = COMPLETED_COMPACTIONS.c
