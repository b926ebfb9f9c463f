"""The rows that we write are those that a real Hive 4.1 was seen to write, apart from ids and times."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import Table, select

from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entity, Entry, Request
from compactor.compaction.states import CompactionType, State
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.catalog.values import Table as CatalogTable
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.transaction_rows import TxnType
from tests.support.committing import committing

pytestmark = pytest.mark.usefixtures("hive4")

TU = Entity(database="default", table="tu")
PART = Entity(database="default", table="tr", partition="p=a b%3Dc%2Fd%25")
SHARED_WRITE = LockRequest(database="default", table="tu", type=LockType.SHARED_WRITE)
SHARED_READ = LockRequest(database="default", table="tu", type=LockType.SHARED_READ)
_TIMES = ("STARTED", "HEARTBEAT", "TIMESTAMP", "_TIME", "_START", "_END", "ACQUIRED_AT")


def select_rows(metastore: Metastore, table: Table) -> list[dict[str, Any]]:
    """Returns a table's rows: set columns only; a time that is set reads ``T``."""
    with metastore.database.read() as conn:
        found = conn.execute(select(table).order_by(*list(table.columns)[:4])).mappings().all()
    return [
        {name: "T" if name.endswith(_TIMES) and value else value for name, value in row.items() if value is not None}
        for row in found
        if row.get("TXN_ID") != 0
    ]


@pytest.fixture
def tu(metastore: Metastore) -> CatalogTable:
    return metastore.embedded_catalog.create_table(
        NewTable("default", "tu", "/warehouse/tu", [Column(name="a", type="int")])
    )


def write(metastore: Metastore, operation: str = "i") -> TxnId:
    """Runs a statement up to its commit."""
    [txn] = metastore.transactions.open("root", "HOST")
    write_id = metastore.write_ids.allocate(txn, "default", "tu")
    metastore.write_ids.add_component(txn, TU, operation, write_id)
    assert metastore.locks.acquire(txn, [SHARED_WRITE], "root", "HOST").is_acquired
    return txn


def txn_row(txn: int, state: str, type: int = 0) -> dict[str, Any]:
    return {
        "TXN_ID": txn,
        "TXN_STATE": state,
        "TXN_STARTED": "T",
        "TXN_LAST_HEARTBEAT": "T",
        "TXN_USER": "root",
        "TXN_HOST": "HOST",
        "TXN_TYPE": type,
    }


def lock_row(txn: int, lock: int, type: str, **more: Any) -> dict[str, Any]:
    return {
        "HL_LOCK_EXT_ID": lock,
        "HL_LOCK_INT_ID": 1,
        "HL_TXNID": txn,
        "HL_DB": "default",
        "HL_TABLE": "tu",
        "HL_LOCK_STATE": "a",
        "HL_LOCK_TYPE": type,
        "HL_LAST_HEARTBEAT": 0,
        "HL_ACQUIRED_AT": "T",
        "HL_USER": "root",
        "HL_HOST": "HOST",
    } | more


def component(txn: int, operation: str, write_id: int) -> dict[str, Any]:
    return {
        "TC_TXNID": txn,
        "TC_DATABASE": "default",
        "TC_TABLE": "tu",
        "TC_OPERATION_TYPE": operation,
        "TC_WRITEID": write_id,
    }


def completed(txn: int, write_id: int, flag: str) -> dict[str, Any]:
    return {
        "CTC_TXNID": txn,
        "CTC_DATABASE": "default",
        "CTC_TABLE": "tu",
        "CTC_TIMESTAMP": "T",
        "CTC_WRITEID": write_id,
        "CTC_UPDATE_DELETE": flag,
    }


def test_insert_before_its_commit(metastore: Metastore, tu: CatalogTable) -> None:
    txn = write(metastore)
    assert select_rows(metastore, t.TXNS) == [txn_row(1, "o")]
    assert select_rows(metastore, t.MIN_HISTORY_LEVEL) == [{"MHL_TXNID": 1, "MHL_MIN_OPEN_TXNID": 1}]
    assert select_rows(metastore, t.NEXT_WRITE_ID) == [{"NWI_DATABASE": "default", "NWI_TABLE": "tu", "NWI_NEXT": 2}]
    mapping = {"T2W_TXNID": 1, "T2W_DATABASE": "default", "T2W_TABLE": "tu", "T2W_WRITEID": 1}
    assert select_rows(metastore, t.TXN_TO_WRITE_ID) == [mapping]
    assert select_rows(metastore, t.TXN_COMPONENTS) == [component(1, "i", 1)]
    assert select_rows(metastore, t.HIVE_LOCKS) == [lock_row(txn, 1, "w")]
    assert select_rows(metastore, t.NEXT_LOCK_ID) == [{"NL_NEXT": 2}]


def test_insert_after_its_commit(metastore: Metastore, tu: CatalogTable) -> None:
    metastore.transactions.commit(write(metastore))
    assert select_rows(metastore, t.TXNS) == [txn_row(1, "c")]
    assert select_rows(metastore, t.COMPLETED_TXN_COMPONENTS) == [completed(1, 1, "N")]
    for empty in (t.TXN_COMPONENTS, t.HIVE_LOCKS, t.MIN_HISTORY_LEVEL, t.WRITE_SET):
        assert select_rows(metastore, empty) == []


def test_update_of_an_unpartitioned_table(metastore: Metastore, tu: CatalogTable) -> None:
    metastore.transactions.commit(write(metastore, "d"))
    touched = {
        "WS_DATABASE": "default",
        "WS_TABLE": "tu",
        "WS_TXNID": 1,
        "WS_COMMIT_ID": 1,
        "WS_OPERATION_TYPE": "d",
    }
    assert select_rows(metastore, t.WRITE_SET) == [touched]
    assert select_rows(metastore, t.COMPLETED_TXN_COMPONENTS) == [completed(1, 1, "Y")]


def test_update_of_a_partition_leaves_two_completed_rows(metastore: Metastore) -> None:
    """The delete half and the insert half, both ``Y``; one row in WRITE_SET; names in the stored form."""
    [txn] = metastore.transactions.open("root", "HOST")
    write_id = metastore.write_ids.allocate(txn, "default", "tr")
    metastore.write_ids.add_component(txn, PART, "d", write_id)
    metastore.write_ids.add_component(txn, PART, "i", write_id)
    metastore.transactions.commit(txn)
    row = completed(1, 1, "Y") | {"CTC_TABLE": "tr", "CTC_PARTITION": PART.partition}
    assert select_rows(metastore, t.COMPLETED_TXN_COMPONENTS) == [row, row]
    assert [row["WS_OPERATION_TYPE"] for row in select_rows(metastore, t.WRITE_SET)] == ["d"]


def test_aborted_insert(metastore: Metastore, tu: CatalogTable) -> None:
    assert metastore.transactions.abort(write(metastore), "rollback")
    assert select_rows(metastore, t.TXNS) == [txn_row(1, "a") | {"TXN_META_INFO": "rollback"}]
    assert select_rows(metastore, t.TXN_COMPONENTS) == [component(1, "i", 1)]
    for empty in (t.HIVE_LOCKS, t.MIN_HISTORY_LEVEL, t.COMPLETED_TXN_COMPONENTS):
        assert select_rows(metastore, empty) == []


def test_lock_on_an_escaped_partition_name_stands_in_both_forms(metastore: Metastore) -> None:
    """PROTOCOL 9: Hive writes the twice escaped form, Trino the stored one."""
    [txn] = metastore.transactions.open("root", "HOST")
    request = LockRequest(database="default", table="tr", partition=PART.partition, type=LockType.SHARED_READ)
    metastore.locks.acquire(txn, [request], "root", "HOST")
    names = [row["HL_PARTITION"] for row in select_rows(metastore, t.HIVE_LOCKS)]
    assert names == ["p=a b%253Dc%252Fd%2525", "p=a b%3Dc%2Fd%25"]


REQUESTED = {
    "CQ_ID": 1,
    "CQ_DATABASE": "default",
    "CQ_TABLE": "tu",
    "CQ_STATE": "i",
    "CQ_TYPE": "i",
    "CQ_ENQUEUE_TIME": "T",
    "CQ_INITIATOR_ID": "compactor-HOST",
    "CQ_INITIATOR_VERSION": "0.1.0",
    "CQ_RETRY_RETENTION": 0,
}
CLAIMED = REQUESTED | {
    "CQ_STATE": "w",
    "CQ_START": "T",
    "CQ_WORKER_ID": "compactor-HOST-1",
    "CQ_WORKER_VERSION": "4.1.0",
}
RECORDED = CLAIMED | {"CQ_RUN_AS": "root", "CQ_TXN_ID": 4, "CQ_HIGHEST_WRITE_ID": 3}


class TestMinorCompaction:
    """Request, worker, cleaner over two inserts and an update, as traced."""

    @pytest.fixture
    def written(self, metastore: Metastore, tu: CatalogTable) -> Metastore:
        for operation in ("i", "i", "d"):
            metastore.transactions.commit(write(metastore, operation))
        return metastore

    def requested(self, metastore: Metastore) -> int:
        return metastore.requests.request(Request(entity=TU, type=CompactionType.MINOR, initiator="compactor-HOST"))

    def claimed(self, metastore: Metastore) -> Entry:
        self.requested(metastore)
        entry = metastore.claims.claim("compactor-HOST-1", "4.1.0", pool_timeout_ms=0)
        assert entry is not None
        return entry

    def recorded(self, metastore: Metastore) -> tuple[Entry, TxnId]:
        entry = self.claimed(metastore)
        [txn] = metastore.transactions.open("root", "HOST", type=TxnType.COMPACTION)
        assert metastore.locks.acquire(txn, [SHARED_READ], "root", "HOST").is_acquired
        return metastore.claims.record(entry, "compactor-HOST-1", txn, "root", WriteId(3)), txn

    def commit(self, metastore: Metastore, tu: CatalogTable) -> Entry:
        entry, txn = self.recorded(metastore)
        place = {"table_id": tu.id, "partition_id": None, "location": tu.location}
        with committing(metastore, entry, "compactor-HOST-1", txn, **place):
            pass
        return metastore.entries.get(entry.id)

    def test_requested(self, written: Metastore) -> None:
        self.requested(written)
        assert select_rows(written, t.COMPACTION_QUEUE) == [REQUESTED]

    def test_claimed(self, written: Metastore) -> None:
        self.claimed(written)
        assert select_rows(written, t.COMPACTION_QUEUE) == [CLAIMED]

    def test_recorded(self, written: Metastore) -> None:
        self.recorded(written)
        assert select_rows(written, t.COMPACTION_QUEUE) == [RECORDED]
        assert select_rows(written, t.TXN_COMPONENTS) == [component(4, "c", 3)]
        assert select_rows(written, t.TXNS)[-1] == txn_row(4, "o", 3)
        assert select_rows(written, t.MIN_HISTORY_LEVEL) == [{"MHL_TXNID": 4, "MHL_MIN_OPEN_TXNID": 4}]
        assert select_rows(written, t.HIVE_LOCKS) == [lock_row(4, 4, "r")]

    def test_committed(self, written: Metastore, tu: CatalogTable) -> None:
        self.commit(written, tu)
        ready = RECORDED | {"CQ_STATE": "r", "CQ_NEXT_TXN_ID": 4, "CQ_COMMIT_TIME": "T"}
        del ready["CQ_WORKER_ID"]
        assert select_rows(written, t.COMPACTION_QUEUE) == [ready]
        assert select_rows(written, t.TXNS)[-1] == txn_row(4, "c", 3)
        for empty in (t.TXN_COMPONENTS, t.HIVE_LOCKS, t.MIN_HISTORY_LEVEL):
            assert select_rows(written, empty) == []
        assert [row["CTC_TXNID"] for row in select_rows(written, t.COMPLETED_TXN_COMPONENTS)] == [1, 2, 3]

    def test_cleaned(self, written: Metastore, tu: CatalogTable) -> None:
        entry = self.commit(written, tu)
        assert written.cleaning.take([entry], 0)
        assert select_rows(written, t.COMPACTION_QUEUE)[0]["CQ_CLEANER_START"] == "T"
        written.cleaning.mark_cleaned(entry, [], all_below=True)
        done = {
            "CC_ID": 1,
            "CC_DATABASE": "default",
            "CC_TABLE": "tu",
            "CC_STATE": State.SUCCEEDED.value,
            "CC_TYPE": "i",
            "CC_ENQUEUE_TIME": "T",
            "CC_START": "T",
            "CC_END": "T",
            "CC_RUN_AS": "root",
            "CC_HIGHEST_WRITE_ID": 3,
            "CC_NEXT_TXN_ID": 4,
            "CC_TXN_ID": 4,
            "CC_COMMIT_TIME": "T",
            "CC_INITIATOR_ID": "compactor-HOST",
            "CC_INITIATOR_VERSION": "0.1.0",
            "CC_WORKER_VERSION": "4.1.0",
        }
        assert select_rows(written, t.COMPLETED_COMPACTIONS) == [done]
        assert select_rows(written, t.COMPACTION_QUEUE) == []
        assert select_rows(written, t.COMPLETED_TXN_COMPONENTS) == []
