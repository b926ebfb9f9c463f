"""Tasks divided and put together read the same rows, once each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from compactor.rows.acid_file import open_files
from compactor.rows.inputs import Input
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables.reading.scan_planning import plan_scan
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.reading.scan_tasks import ScanTask
from compactor.tables.reading.splits import make_portions, split_task
from compactor.tables.reading.task_reader import read_task
from compactor.tables.store import named_table
from compactor.tables.transactions.transaction_block import transaction

MB = 1 << 20


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
