"""Works under way: each ends once, whoever ends it, and one that cannot be aborted keeps none of the others from it."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid import txn_states
from compactor.base.errors import StorageError
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_transaction import HeldByName, HeldTransaction
from compactor.tables import Store


@dataclass(frozen=True)
class Work:
    transaction: HeldTransaction


@pytest.fixture
def works(deployment: Site) -> HeldByName[Work]:
    """Two works, each in an open transaction."""
    found: HeldByName[Work] = HeldByName()
    for _ in range(2):
        found.put(Work(HeldTransaction(deployment, "test")))
    return found


def states(site: Site, works: list[Work]) -> list[str | None]:
    return [site.metastore.transactions.state(work.transaction.txn.id) for work in works]


def test_a_work_is_aborted_once(deployment: Site, works: HeldByName[Work]) -> None:
    first, second = every = works.every()
    assert works.abort(first.transaction.name) is True
    assert works.abort(first.transaction.name) is False
    assert works.find(first.transaction.name) is None
    assert works.find(second.transaction.name) is second
    assert states(deployment, every) == [txn_states.ABORTED, txn_states.OPEN]
    works.abort_all()
    assert not works
    assert states(deployment, every) == [txn_states.ABORTED, txn_states.ABORTED]


def test_whoever_takes_a_work_out_is_alone_with_it(deployment: Site, works: HeldByName[Work]) -> None:
    first, second = works.every()
    assert works.take(first.transaction.name) is first
    assert works.take(first.transaction.name) is None
    works.abort_all()
    assert states(deployment, [first, second]) == [txn_states.OPEN, txn_states.ABORTED]
    first.transaction.abort()


def test_one_that_cannot_be_aborted_keeps_no_other_from_it(
    deployment: Site, works: HeldByName[Work], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = works.every()

    def away() -> None:
        raise StorageError("the disk is away")

    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(first.transaction, "abort", away)
        works.abort_all()
    assert f"transaction {first.transaction.txn.id}: the disk is away; it times out" in caplog.text
    assert states(deployment, [first, second]) == [txn_states.OPEN, txn_states.ABORTED]
    first.transaction.abort()


def test_what_fails_while_it_is_finished_leaves_no_trace(deployment: Site, warehouse: Path) -> None:
    store = Store(deployment)
    store.create_database("db", str(warehouse))
    table = store.create_table("db.t", {"i": "bigint"})
    transaction = HeldTransaction(deployment, "test")
    with pytest.raises(StorageError), transaction.finishing():
        raise StorageError("a file is gone")
    assert deployment.metastore.transactions.state(transaction.txn.id) == txn_states.ABORTED
    transaction = HeldTransaction(deployment, "test")
    with transaction.finishing():
        pass
    assert deployment.metastore.transactions.state(transaction.txn.id) not in (txn_states.OPEN, txn_states.ABORTED)
    assert table.append(pa.table({"i": [1]})) == 1
