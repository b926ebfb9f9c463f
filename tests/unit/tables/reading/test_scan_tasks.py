"""Rows that came since an older snapshot, whatever was compacted between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid.write_ids import ValidWriteIdList
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.rows.acid_file import open_files
from compactor.rows.inputs import Input
from compactor.site.site import Site
from compactor.tables import Store, Table
from compactor.tables.reading import scan_task_reader
from compactor.tables.reading.scan_planning import ScanRequest, plan_scan
from compactor.tables.reading.scan_task_reader import read_task
from compactor.tables.reading.scan_tasks import NOTHING, ScanPlan, ScanTask, keep_later_rows, make_portions, split_task
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction_block import transaction
from compactor.worker.under_way import Options
from tests.support.passes import clean_all, compact
from tests.support.tables import with_settings

MB = 1 << 20


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


def read_later_rows(site: Site, earlier: ValidWriteIdList, end: ValidWriteIdList | None = None) -> list[int]:
    plan = planned(site, earlier, end or now(site))
    return sorted(
        row["i"] for task in plan.tasks for rows in read_task(plan, task, site.storage) for row in rows.to_pylist()
    )


def test_what_was_appended_and_changed_since(site: Site, table: Table) -> None:
    first = now(site)
    assert read_later_rows(site, NOTHING) == [1, 2]
    assert read_later_rows(site, first) == []
    table.append(pa.table({"i": [3, 4]}))
    second = now(site)
    table.update({"i": "10"}, where="i in (1, 3)")
    table.delete("i = 4")
    assert read_later_rows(site, first, second) == [3, 4]  # as they were then
    assert read_later_rows(site, first) == [10, 10]
    assert read_later_rows(site, second) == [10, 10]
    assert read_later_rows(site, NOTHING) == [2, 10, 10]


@pytest.mark.parametrize("kind", ["minor", "major", "rebalance"])
def test_a_compaction_brings_nothing_and_takes_nothing(site: Site, table: Table, kind: str) -> None:
    first = now(site)
    table.append(pa.table({"i": [3]}))
    second = now(site)
    table.append(pa.table({"i": [4]}))
    compact(site, kind, table="db.t")
    clean_all(site)
    assert (read_later_rows(site, first, second), read_later_rows(site, second), read_later_rows(site, first)) == (
        [3],
        [4],
        [3, 4],
    )
    assert read_later_rows(site, now(site)) == []


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
    choose = scan_task_reader.choose_action
    monkeypatch.setattr(scan_task_reader, "choose_action", lambda *given: looked.append(given[1]) or choose(*given))
    assert [row for rows in read_task(plan, task, site.storage) for row in rows.to_pylist()] == [{"i": 3}]
    assert looked == [1]


def test_a_write_that_was_open_is_later(site: Site, table: Table) -> None:
    with Store(site).transaction() as txn:
        txn.load_table("db.t").append(pa.table({"i": [5]}))
        table.append(pa.table({"i": [6]}))
        first = now(site)
    assert first.open
    assert read_later_rows(site, first) == [5]


def task(*lengths: int, raw: bool = False, flushed: bool = False) -> ScanTask:
    files = [Input(path=str(at), length=n, raw=raw, has_flush_length=flushed) for at, n in enumerate(lengths)]
    return ScanTask(location="/t", number=0, inserts=tuple(files), deletes=())


def shape(tasks: list[ScanTask]) -> list[tuple[list[str], tuple[int, int] | None]]:
    return [([file.path for file in one.inserts], one.span) for one in tasks]


def test_small_files_stay_together() -> None:
    assert list(split_task(task(3, 4), 10)) == [task(3, 4)]


def test_a_large_file_is_read_in_spans_and_the_others_in_runs() -> None:
    found = shape(list(split_task(task(2, 3, 25, 4), 10)))
    assert found == [(["0", "1"], None), (["2"], (0, 8)), (["2"], (8, 16)), (["2"], (16, 25)), (["3"], None)]


def test_raw_files_and_those_that_may_grow_stay_whole() -> None:
    for whole in (task(20, 20, raw=True), task(20, 20, flushed=True)):
        assert list(split_task(whole, 10)) == [whole]


def test_small_tasks_are_read_together() -> None:
    tasks = [replace(task(MB), number=number) for number in range(5)]
    assert [[one.number for one in of] for of in make_portions(tasks, 2 * MB)] == [[0, 1], [2, 3], [4]]


def test_a_tiny_task_counts_for_its_opening() -> None:
    assert [len(one) for one in make_portions([task(1)] * 5, 2 * MB)] == [2, 2, 1]


def test_spans_read_every_row_once(deployment: Site, warehouse: Path) -> None:
    store = Store(deployment)
    store.create_database("db", str(warehouse))
    table = store.create_table(
        "db.t", {"i": "bigint"}, properties={"orc.stripe.size": "1048576", "orc.compress": "NONE"}
    )
    values = [at * 2_654_435_761 % 2**40 for at in range(700_000)]
    table.append(pa.table({"i": values}))
    table.delete(f"i < {2**39}")
    with transaction(deployment) as txn:
        plan = plan_scan(txn, named_table(deployment, "db.t"), ScanRequest())
    [whole] = plan.tasks
    with open_files(whole.location, whole.inserts, 0, deployment.storage) as [file]:
        assert len(file.tail.stripes) > 2
    parts = list(split_task(whole, whole.inserts[0].length // 7))
    assert len(parts) > 5
    batches = [batch for part in parts for batch in read_task(plan, part, deployment.storage)]
    found = [value for batch in batches for value in batch.column(0).to_pylist()]
    assert found == [value for value in values if value >= 2**39]
