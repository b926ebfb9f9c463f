from __future__ import annotations

from collections.abc import Callable

import pytest

from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.change_marker import change_marker
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import tables as t
from compactor.metastore.transactions.transaction_rows import TxnType

T = Entity(database="default", table="t")


@pytest.fixture
def running(metastore: Metastore) -> tuple[Metastore, TxnId]:
    """A metastore with a table and a transaction that has written into it."""
    if "default" not in metastore.catalog.databases():
        metastore.embedded_catalog.create_database("default", "/w")
    metastore.embedded_catalog.create_table(NewTable("default", "t", "/t", [Column(name="a", type="int")]))
    [txn] = metastore.transactions.open("u", "h")
    metastore.write_ids.add_component(txn, T, "i", metastore.write_ids.allocate(txn, "default", "t"))
    return metastore, txn


def _commit(metastore: Metastore, txn: TxnId) -> None:
    metastore.transactions.commit(txn)


def _abort(metastore: Metastore, txn: TxnId) -> None:
    metastore.transactions.abort(txn, "x")


def _request(metastore: Metastore, txn: TxnId) -> None:
    metastore.requests.request(Request(entity=T, type=CompactionType.MAJOR, initiator="compactor-x"))


def _history(metastore: Metastore, txn: TxnId) -> None:
    metastore.requests.did_not_initiate(T, "x")


def _table_property(metastore: Metastore, txn: TxnId) -> None:
    table = metastore.catalog.table("default", "t")
    metastore.embedded_catalog.set_table_parameter(table, "compactorthreshold.hive.compactor.delta.num.threshold", "3")


def _database_property(metastore: Metastore, txn: TxnId) -> None:
    metastore.embedded_catalog.set_database_parameter("default", "NO_AUTO_COMPACTION", "true")


@pytest.mark.parametrize("change", [_commit, _abort, _request, _history, _table_property, _database_property])
def test_the_marker_changes_with(change: Callable[[Metastore, TxnId], None], running: tuple[Metastore, TxnId]) -> None:
    """PROTOCOL 10: writes, aborts, requests, history and properties are part of the change marker."""
    metastore, txn = running
    before = change_marker(metastore)
    assert change_marker(metastore) == before
    change(metastore, txn)
    assert change_marker(metastore) != before


def test_the_marker_changes_as_aborts_age(running: tuple[Metastore, TxnId]) -> None:
    """PROTOCOL 10: abort ages too."""
    metastore, txn = running
    metastore.transactions.abort(txn, "x")
    before = change_marker(metastore)
    with metastore.database.write() as conn:
        conn.execute(t.TXNS.update().values(TXN_STARTED=t.TXNS.c.TXN_STARTED - 3_600_000))
    assert change_marker(metastore) != before


def test_nothing_to_look_at_leaves_it(running: tuple[Metastore, TxnId]) -> None:
    metastore, _ = running
    before = change_marker(metastore)
    [reader] = metastore.transactions.open("u", "h", type=TxnType.READ_ONLY)
    metastore.transactions.commit(reader)
    metastore.embedded_catalog.set_table_parameter(metastore.catalog.table("default", "t"), "comment", "new")
    assert change_marker(metastore) == before


def test_an_observer_sees_the_same(running: tuple[Metastore, TxnId]) -> None:
    metastore, _ = running
    observer = open_metastore("default", f"sqlite:///{metastore.database.path}", read_only=True)
    assert change_marker(observer) == change_marker(metastore)
