from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import CompactionFailed, NotFound, Refused
from compactor.requests.abort import abort_compaction
from compactor.requests.request import WaitTimedOut
from compactor.site.site import Site
from compactor.tables.store import Store
from compactor.tables.table import Table
from tests.support.patience import until
from tests.support.tables import with_settings


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    store = Store(with_settings(deployment, hive_txn_opentxn_timeout="1ms"))
    store.create_database("default", str(warehouse))
    made = store.create_table("default.t", {"a": "int", "p": "int"}, partitioned_by=["p"])
    for number in range(3):
        made.append(pa.table({"a": [number, number], "p": [1, 2]}))
    return made


def test_a_compaction_is_requested_and_worked_on_here(table: Table, warehouse: Path) -> None:
    done = table.compact("major", wait=True, here=True)
    assert [(one.partition, one.state) for one in done] == [
        ("p=1", "ready for cleaning"),
        ("p=2", "ready for cleaning"),
    ]
    assert len(list(warehouse.glob("t/p=*/base_*"))) == 2
    assert table.scan().count() == 6


def test_a_request_for_one_partition_waits_for_a_worker(table: Table) -> None:
    (asked,) = table.compact("minor", partition="p=1")
    assert (asked.partition, asked.state) == ("p=1", "initiated")
    with pytest.raises(Refused, match="p=1"):
        table.compact("major", partition="p=1")
    with pytest.raises(WaitTimedOut, match="it continues in the background"):
        table.compact("minor", partition="p=2", wait=True, timeout_s=0)
    with pytest.raises(NotFound):
        table.compact("minor", partition="p=3")


def test_one_that_does_not_succeed_raises(table: Table, deployment: Site) -> None:
    def abort_it() -> None:
        until("it is queued", deployment.metastore.entries.queue)
        (entry,) = deployment.metastore.entries.queue()
        abort_compaction(deployment, entry.id)

    with ThreadPoolExecutor(1) as pool:
        aborted = pool.submit(abort_it)
        with pytest.raises(CompactionFailed, match=r"default\.t/p=1: compaction \d+ aborted"):
            table.compact("major", partition="p=1", wait=True)
        aborted.result()
