"""Transactions that are opened ahead, and what becomes of those that are not used."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import func, select

from compactor.base.errors import Disagreement, LockNotGranted, NotFound, TransactionAborted, WriteConflict
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import HIVE_LOCKS, TXN_COMPONENTS, TXNS
from compactor.site.site import Site
from compactor.tables.transactions import batch as batches
from compactor.tables.transactions.batch import AGE_S, MOST, TransactionBatch, next_batch_size
from compactor.tables.transactions.transaction_block import transaction
from tests.support.tables import make_table, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="0s")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    return make_table(site, warehouse)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def count(site: Site, column: object) -> int:
    with site.metastore.database.read() as conn:
        return int(conn.execute(select(func.count(column))).scalar_one())  # type: ignore[arg-type]


def state_counts(site: Site) -> dict[str, int]:
    with site.metastore.database.read() as conn:
        rows = conn.execute(select(TXNS.c.TXN_STATE, func.count()).group_by(TXNS.c.TXN_STATE))
        return {state: number for state, number in rows if state in "oa"}


@pytest.mark.parametrize(
    ("size", "used", "took_s", "next_size"),
    [
        (1, 1, 0.01, 2),
        (64, 64, AGE_S / 4, 128),
        (MOST, MOST, 0.1, MOST),
        (64, 64, AGE_S * 0.9, 64),  # a second's worth
        (64, 10, AGE_S, 10),
        (2, 0, AGE_S, 1),
    ],
)
def test_a_batch_is_as_large_as_a_second_needs(size: int, used: int, took_s: float, next_size: int) -> None:
    assert next_batch_size(size, used, took_s) == next_size


def test_a_batch_is_open_with_write_ids_components_and_one_lock(site: Site, table: Table) -> None:
    batch = TransactionBatch(site, table, None, 3)
    assert state_counts(site) == {"o": 3}
    assert site.metastore.write_ids.next("default", "t") == 4
    assert count(site, TXN_COMPONENTS.c.TC_TXNID) == 3
    assert [(row.table, row.type) for row in site.metastore.locks.show()] == [("t", LockType.SHARED_WRITE)]
    batch.close()


def test_what_is_not_used_is_given_back_without_a_trace(site: Site, table: Table) -> None:
    """Its components would wait for a cleaner, and count towards a compaction, for nothing."""
    batch = TransactionBatch(site, table, None, 3)
    with batch.next():
        pass
    assert (batch.used, batch.size) == (1, 3)
    batch.close()
    assert state_counts(site) == {"a": 2}
    assert count(site, TXN_COMPONENTS.c.TC_TXNID) == count(site, HIVE_LOCKS.c.HL_TXNID) == 0


def test_a_batch_is_over_when_it_is_used_up_or_a_second_old(site: Site, table: Table) -> None:
    clock = Clock()
    batch = TransactionBatch(site, table, None, 2, clock)
    assert not batch.is_over
    clock.now = AGE_S
    assert batch.is_over
    batch.close()
    batch = TransactionBatch(site, table, None, 1, clock)
    with batch.next():
        pass
    assert batch.is_over
    batch.close()


def test_nobody_overwrites_the_table_while_a_batch_is_open(site: Site, table: Table) -> None:
    """Its base would hide all of the batch's deltas."""
    batch = TransactionBatch(site, table, None, 2)
    with pytest.raises(LockNotGranted), transaction(site) as txn:
        txn.lock_for_overwriting(table, None)
    batch.close()
    with transaction(site) as txn:
        txn.lock_for_overwriting(table, None)


def test_a_batch_waits_for_whoever_overwrites(site: Site, table: Table) -> None:
    with transaction(site) as txn:
        txn.lock_for_overwriting(table, None)
        with pytest.raises(LockNotGranted):
            TransactionBatch(site, table, None, 2)
        assert state_counts(site) == {"o": 1, "a": 2}
    assert site.metastore.write_ids.next("default", "t") == 1


def test_an_overwrite_that_its_lock_did_not_keep_out_wins(site: Site, table: Table) -> None:
    """PROTOCOL 14.18: with hive.txn.xlock.iow false, an INSERT and an INSERT OVERWRITE hold their locks side by side."""
    batch = TransactionBatch(site, table, None, 2)
    metastore, entity = site.metastore, Entity(database="default", table="t")
    (other,) = metastore.transactions.open("u", "h")
    metastore.write_ids.add_component(other, entity, "u", metastore.write_ids.allocate(other, "default", "t"))
    metastore.transactions.commit(other)
    with pytest.raises(WriteConflict, match=f"transaction {other} "), batch.next() as (txn, made, _):
        txn.pending.attempts(made.location)
    batch.close()
    assert "o" not in state_counts(site)


def test_who_loses_the_lock_of_the_batch_commits_nothing(site: Site, table: Table) -> None:
    batch = TransactionBatch(site, table, None, 2, Clock())
    metastore = site.metastore
    holder = max(one.id for one in metastore.transactions.open_transactions())

    def commit() -> None:
        with batch.next() as (txn, made, _):
            txn.pending.attempts(made.location)
            metastore.transactions.abort(holder, "somebody")

    with pytest.raises(TransactionAborted):
        commit()
    batch.close()
    assert "o" not in state_counts(site)


def test_a_table_that_was_altered_takes_no_rows_of_its_old_columns(site: Site, table: Table, warehouse: Path) -> None:
    embedded = site.metastore.embedded_catalog
    embedded.drop_table(table)
    (warehouse / "t").rmdir()
    make_table(site, warehouse)
    with pytest.raises(
        NotFound, match=r"default\.t: was dropped since it was loaded, and another table \(id 2, was 1\)"
    ):
        TransactionBatch(site, table, None, 2)
    assert "o" not in state_counts(site)


def test_write_ids_that_a_directory_holds_already_are_not_recorded(site: Site, table: Table, warehouse: Path) -> None:
    """Else the cleaner would remove what somebody else wrote under them."""
    (warehouse / "t" / "delta_0000002_0000002_0000").mkdir()
    with pytest.raises(Disagreement, match="write ID 2 was never allocated"):
        TransactionBatch(site, table, None, 3)
    assert count(site, TXN_COMPONENTS.c.TC_TXNID) == 0


def test_a_batch_that_has_waited_for_its_lock_is_as_good_as_any(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    def wait(*_: object) -> None:
        clock.now += 10 * AGE_S

    monkeypatch.setattr(batches, "wait_for_locks", wait)
    batch = TransactionBatch(site, table, None, 2, clock)
    assert not batch.is_over
    batch.close()
