"""Mode observe: everything that is read is read without writing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compactor.base.errors import DatabaseUnavailable
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore, open_metastore

T = Entity(database="default", table="t")
LOCK = LockRequest(database="default", table="t", type=LockType.SHARED_READ)

READS: list[Callable[[Metastore], Any]] = [
    lambda m: m.catalog.databases(),
    lambda m: m.catalog.tables(),
    lambda m: m.catalog.partitions(m.catalog.table("default", "t")),
    lambda m: m.transactions.snapshot(),
    lambda m: m.transactions.lowest_open(),
    lambda m: m.transactions.open_transactions(),
    lambda m: m.transactions.state(TxnId(1)),
    lambda m: m.transactions.newest(),
    lambda m: m.write_ids.valid("default", "t", m.transactions.snapshot()),
    lambda m: m.write_ids.next("default", "t"),
    lambda m: m.locks.show(),
    lambda m: m.locks.blockers(TxnId(0), [LOCK]),
    lambda m: m.locks.awaited_exclusively([T]),
    lambda m: m.entries.queue(),
    lambda m: m.entries.history(),
    lambda m: m.components.written_tables(),
    lambda m: m.components.writes([("default", "t")]),
    lambda m: m.entries.ended([("default", "t")]),
    lambda m: m.entries.unsuccessful_histories([("default", "t")]),
    lambda m: m.locations.for_partitions({1: ["p=1"]}),
    lambda m: m.components.aborts(),
    lambda m: m.cleaning.ready_for_cleaning(0),
    lambda m: m.housekeeping.forgettable(),
]


@pytest.fixture
def written(metastore: Metastore) -> Metastore:
    if "default" not in metastore.catalog.databases():
        metastore.embedded_catalog.create_database("default", "/w")
    metastore.embedded_catalog.create_table(NewTable("default", "t", "/t", [Column(name="a", type="int")]))
    [txn] = metastore.transactions.open("u", "h")
    metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "default", "t"))
    metastore.locks.acquire(txn, [LOCK], "u", "h")
    metastore.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-x"))
    return metastore


def test_an_observer_reads_everything(written: Metastore) -> None:
    observer = open_metastore("default", f"sqlite:///{written.database.path}", read_only=True)
    before = written.database.path.read_bytes()
    for read in READS:
        assert read(observer) == read(written)
    assert written.database.path.read_bytes() == before
    with pytest.raises(DatabaseUnavailable, match="read-only"):
        observer.transactions.open("u", "h")
