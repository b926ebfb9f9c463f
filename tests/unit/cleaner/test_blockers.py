from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from compactor.base.ids import TxnId
from compactor.cleaner.blockers import blocked_entries, blockers_of, blocking_transactions
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.metastore import Metastore
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.site.site import Site
from compactor.state.sightings import Sighting
from tests.support.passes import compact
from tests.support.tables import insert, make_table

READY = Entry(
    id=1,
    entity=Entity(database="default", table="t"),
    state=State.READY_FOR_CLEANING,
    type=CompactionType.MAJOR,
)


def test_blockers_are_open_and_not_younger_than_the_stamp(deployment: Site, metastore: Metastore) -> None:
    """PROTOCOL 7.1: at or below CQ_NEXT_TXN_ID, of any type."""
    a, b, c, d = (
        metastore.transactions.open(user, "h", type=kind, agent="cli")[0]
        for user, kind in zip(
            "abcd", (TxnType.DEFAULT, TxnType.READ_ONLY, TxnType.DEFAULT, TxnType.DEFAULT), strict=True
        )
    )
    metastore.transactions.commit(a)
    stamped = replace(READY, next_txn_id=TxnId(c))
    found = blockers_of(deployment, stamped)
    assert [(x.txn, x.user, x.type) for x in found] == [(b, "b", "read_only"), (c, "c", "default")]
    assert found[0].to_json() == {
        "txnid": b,
        "user": "b",
        "host": "h",
        "agent": "cli",
        "type": "read_only",
        "age_ms": found[0].age_ms,
    }
    assert f"transaction {b} (read_only) of b@h" in str(found[0])
    assert d not in {x.txn for x in found}


def test_a_row_without_a_stamp_is_held_by_transactions_open_at_first_sight(deployment: Site) -> None:
    """PROTOCOL 7.1: null stamps count by the largest transaction at first sight, and until then by every open one."""
    assert deployment.state is not None
    older, younger = deployment.metastore.transactions.open("ann", "h", count=2)
    assert [b.txn for b in blockers_of(deployment, READY)] == [older, younger]
    deployment.state.sightings.first(deployment.name, READY.id, Sighting(newest=older))
    assert [b.txn for b in blockers_of(deployment, READY)] == [older]
    assert blockers_of(deployment, replace(READY, state=State.WORKING)) == ()


def test_every_waiting_entry_is_listed_with_its_bytes(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1, 2])
    insert(deployment, table, [3])
    assert blocked_entries(deployment) == ()
    (reader,) = deployment.metastore.transactions.open("ann", "h")
    compact(deployment)
    (held,) = blocked_entries(deployment)
    assert [b.txn for b in held.by] == [reader]
    replaced = [f for f in (warehouse / "t").glob("delta_*/*") if f.is_file()]
    assert len(replaced) >= 3
    assert held.bytes_waiting == sum(f.stat().st_size for f in replaced)


def test_blocking_transactions_are_listed_without_reading_storage(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    for value in range(3):
        insert(deployment, table, [value])
    older, newer = deployment.metastore.transactions.open("ann", "h", count=2)
    compact(deployment)
    assert deployment.state is not None
    (run,) = deployment.state.runs.latest(deployment.name)
    warehouse.rename(warehouse.with_name("elsewhere"))
    found = blocking_transactions(deployment)
    assert [h.blocker.txn for h in found] == [older, newer]
    assert {h.bytes_waiting for h in found} == {run.bytes_before}
    assert found[0].to_json()["compactions"] == [{"compaction": run.entry_id, "table": "default.t"}]
    for txn in (older, newer):
        deployment.metastore.transactions.abort(txn, "enough")
    assert blocking_transactions(deployment) == ()
