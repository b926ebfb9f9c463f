"""Executors that YARN takes away in the middle, and executors that come and go: nothing stays half done."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from compactor.acid.directory import acid_directory
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from demo.snapshot_reader import read_snapshot
from tests.support.many import make_partitions
from tests.support.patience import PATIENCE, until
from tests.support.watching import files_below
from tests.support.yarn_site import YarnSite

QUEUE = "hive.compactor.job.queue"
PARTITIONS = 24
#: Three executors fill the node beside their driver, by what YARN counts.
FILLS = {"spark.executor.instances": "3", "spark.executor.memory": "2g", "spark.executor.memoryOverhead": "384m"}
COME_AND_GO = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "3",
    "spark.dynamicAllocation.maxExecutors": "3",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
}


def test_preempted_executors_of_a_dynamic_allocation(on_yarn: YarnSite) -> None:
    """Another queue wants what it is guaranteed while executors are at work: some are killed, their tasks run elsewhere."""
    table = make_partitions(on_yarn.site.metastore, on_yarn.warehouse, PARTITIONS, deltas=3, name="wide")
    rows = rows_of_partitions(on_yarn.site, table)
    request_compaction(on_yarn.site, table="wide", properties={QUEUE: "night"})
    with on_yarn.submitting("cluster", "--json", conf={**FILLS, **COME_AND_GO}) as process:
        number = until("an application", lambda: running(on_yarn), pause=0.2)
        executors = until("three executors", lambda: of_executors(on_yarn, number, 3), pause=0.2)
        until("the first units", lambda: any(Path(table.location).glob("*/.compactor_v*/attempts/*")), pause=0.05)
        for executor in executors:
            os.kill(executor, signal.SIGSTOP)  # in the middle of whatever they do
        try:
            with on_yarn.occupied("etl", memory="900m"):
                until("a preempted executor", lambda: preempted(on_yarn, number), pause=0.2)
        finally:
            for executor in executors:
                with suppress(ProcessLookupError):
                    os.kill(executor, signal.SIGCONT)
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err[-5000:]
    entries = on_yarn.site.metastore.entries
    assert {entry.state for entry in entries.queue()} == {State.READY_FOR_CLEANING}
    assert rows_of_partitions(on_yarn.site, table) == rows
    left = [name for name in files_below(Path(table.location)) if ".compactor_v" in str(name)]
    assert left == []
    assert len(list(Path(table.location).glob("*/base_*"))) == PARTITIONS


def rows_of_partitions(site: Site, table: Table) -> list[tuple[Any, ...]]:
    """Returns every row with its ROW__ID and its partition."""
    found = []
    for number in range(PARTITIONS):
        name = f"p={number:06d}"
        target = site.target(Entity(database=table.database, table=table.name, partition=name))
        txns = site.metastore.transactions.snapshot()
        write_ids = site.write_ids(table, txns)
        directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
        batches = read_snapshot(target.location, directory, write_ids, target.row_type, site.storage)
        found += [(name, *row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(found)


def running(on_yarn: YarnSite) -> str | None:
    batch = next(iter(on_yarn.batches()), None)
    return batch.application_id if batch is not None and batch.driver is not None else None


def preempted(on_yarn: YarnSite, number: str) -> int:
    found: dict[str, Any] = on_yarn.yarn.application(number)
    return int(found["numNonAMContainerPreempted"])


def of_executors(on_yarn: YarnSite, number: str, count: int) -> list[int] | None:
    found = on_yarn.yarn.processes(number, "ExecutorBackend")
    return found if len(found) >= count else None
