"""Rows that came since an older snapshot, whatever was compacted between."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid.write_ids import ValidWriteIdList
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.tables import Store, Table
from compactor.tables.reading import task_reader
from compactor.tables.reading.later_rows import NOTHING, keep_later_rows
from compactor.tables.reading.scan_planning import plan_scan
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.reading.scan_tasks import ScanPlan
from compactor.tables.reading.task_reader import read_task
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction_block import transaction
from compactor.worker.under_way import Options
from tests.support.passes import clean_all, compact
from tests.support.tables import with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    store = Store(site)
    store.create_database("db", str(warehouse))
    made = store.create_table("db.t", {"i": "int"})
    made.append(pa.table({"i": [1, 2]}))
    return made


def now(site: Site) -> ValidWriteIdList:
    return site.write_ids(named_table(site, "db.t"), site.metastore.transactions.snapshot())


def planned(site: Site, earlier: ValidWriteIdList, end: ValidWriteIdList) -> ScanPlan:
    with transaction(site) as txn:
        return keep_later_rows(plan_scan(txn, named_table(site, "db.t"), ScanRequest()), earlier, end)


def rows(site: Site, earlier: ValidWriteIdList, end: ValidWriteIdList | None = None) -> list[int]:
    plan = planned(site, earlier, end or now(site))
    return sorted(
        row["i"] for task in plan.tasks for rows in read_task(plan, task, site.storage) for row in rows.to_pylist()
    )


def test_what_was_appended_and_changed_since(site: Site, table: Table) -> None:
    first = now(site)
    assert rows(site, NOTHING) == [1, 2]
    assert rows(site, first) == []
    table.append(pa.table({"i": [3, 4]}))
    second = now(site)
    table.update({"i": "10"}, where="i in (1, 3)")
    table.delete("i = 4")
    assert rows(site, first, second) == [3, 4]  # as they were then
    assert rows(site, first) == [10, 10]
    assert rows(site, second) == [10, 10]
    assert rows(site, NOTHING) == [2, 10, 10]


@pytest.mark.parametrize("kind", ["minor", "major", "rebalance"])
def test_a_compaction_brings_nothing_and_takes_nothing(site: Site, table: Table, kind: str) -> None:
    first = now(site)
    table.append(pa.table({"i": [3]}))
    second = now(site)
    table.append(pa.table({"i": [4]}))
    compact(site, kind, table="db.t")
    clean_all(site)
    assert (rows(site, first, second), rows(site, second), rows(site, first)) == ([3], [4], [3, 4])
    assert rows(site, now(site)) == []


def test_files_without_anything_later_are_not_read(site: Site, table: Table) -> None:
    compact(site, table="db.t")
    clean_all(site)
    first = now(site)
    table.append(pa.table({"i": [3]}))
    assert [file.path.partition("/")[0] for task in planned(site, first, now(site)).tasks for file in task.inserts] == [
        "delta_0000002_0000002_0000"
    ]


def test_stripes_without_anything_later_are_not_decoded(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A base holds old rows and new ones, each in stripes of their own."""
    first = now(site)
    table.append(pa.table({"i": [3]}))
    request_compaction(site, table="db.t", type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner(), Options(small_stripe_bytes=0))
    clean_all(site)
    plan = planned(site, first, now(site))
    [task] = plan.tasks
    looked = []
    choose = task_reader.choose_action
    monkeypatch.setattr(task_reader, "choose_action", lambda *given: looked.append(given[1]) or choose(*given))
    assert [row for rows in read_task(plan, task, site.storage) for row in rows.to_pylist()] == [{"i": 3}]
    assert looked == [1]


def test_a_write_that_was_open_is_later(site: Site, table: Table) -> None:
    with Store(site).transaction() as txn:
        txn.load_table("db.t").append(pa.table({"i": [5]}))
        table.append(pa.table({"i": [6]}))
        first = now(site)
    assert first.open
    assert rows(site, first) == [5]
