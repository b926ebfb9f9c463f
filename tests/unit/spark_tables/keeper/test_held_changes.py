"""Changes whose program goes away before they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.acid import txn_states
from compactor.base.errors import TransactionAborted
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_changes import SILENT_S, HeldChanges
from compactor.spark_tables.keeper_requests import BeginChange, MetastorePlace
from compactor.tables import Store


def test_a_change_that_nobody_writes_ends_and_lets_others_write(deployment: Site, warehouse: Path) -> None:
    store = Store(deployment)
    store.create_database("db", str(warehouse))
    store.create_table("db.t", {"i": "bigint"})
    now = 0.0
    changes = HeldChanges(lambda: now)
    left, written = (
        changes.begin(deployment, "app", BeginChange(place=MetastorePlace(), table="db.t", deletes=True)).change
        for _ in range(2)
    )
    changes.work(written)
    changes.abort_lost()
    assert changes.find(left) is not None
    now = SILENT_S
    changes.abort_lost()
    with pytest.raises(TransactionAborted, match="begin it again"):
        changes.work(left)
    open_ones = [txn for txn in deployment.metastore.transactions.unfinished() if txn.state == txn_states.OPEN]
    assert len(open_ones) == 1
    changes.commit(written, [])
    assert not changes
    assert list(warehouse.rglob(".compactor_w*")) == []
