"""The parts of a query's condition by which rows are left out before Spark evaluates it, and which files tasks read."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import Refused, SnapshotExpired
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.values import Table
from compactor.requests.request import RebalanceOptions, request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.spark_tables.keeper.scans import add_versions, keep_alike_conditions, latest_commits, write_ids_between
from compactor.spark_tables.keeper_requests import SeenCommits
from compactor.tables.reading.scan_planning import ScanRequest, plan_scan
from compactor.tables.reading.scan_task_reader import read_task
from compactor.tables.reading.scan_tasks import NOTHING
from compactor.tables.store import Store, named_table
from compactor.tables.table import Table as OpenTable
from compactor.tables.transactions.transaction_block import transaction
from tests.support.passes import clean_all, compact
from tests.support.tables import with_settings


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    store = Store(deployment)
    store.create_database("d", str(warehouse))
    kinds = {"i": "int", "n": "decimal(9,2)", "l": "decimal(38,2)", "x": "double", "c": "char(3)", "s": "string"}
    store.create_table("d.t", kinds | {"b": "boolean", "t": "timestamp", "day": "date"}, partitioned_by=["day"])
    return named_table(deployment, "d.t")


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("`i` = 1 AND `x` > 2.5", ["`i` = 1"]),
        ("day = '2026-11-01' AND n >= 1.5 AND s IS NOT NULL", ["day = '2026-11-01'", "n >= 1.5", "s IS NOT NULL"]),
        ("NOT (i IN (1, 2) OR s = 'a')", ["NOT (i IN (1, 2) OR s = 'a')"]),
        ("i = 1 OR x = 2 AND s = 'a'", []),
        ("i BETWEEN 1 AND 2 AND s = 'a'", ["i BETWEEN 1 AND 2 AND s = 'a'"]),
        ("(i = 1 AND x = 2) AND s = 'and or'", ["s = 'and or'"]),
        ("c = 'a' AND b AND t = '2026-11-01' AND s LIKE 'a%'", []),
        ("i = '1' AND s = 1 AND s = DATE '2026-11-01'", []),
        ("i = 1e3 AND i > 1234567890123456789 AND l = 1", []),
        ("day = '2026-11-01 00:00:00' AND day > 'soon'", []),
        ("i = s AND lower(s) = 'a'", []),
    ],
)
def test_only_what_spark_evaluates_alike_leaves_rows_out(table: Table, where: str, kept: list[str]) -> None:
    assert [part.strip() for part in keep_alike_conditions(where, table)] == kept


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def open_table(site: Site, warehouse: Path) -> OpenTable:
    store = Store(site)
    store.create_database("db", str(warehouse))
    made = store.create_table("db.t", {"i": "int"})
    made.append(pa.table({"i": [2, 1]}))
    return made


def between(site: Site, start: SeenCommits, end: SeenCommits) -> tuple[ValidWriteIdList, ValidWriteIdList]:
    table = named_table(site, "db.t")
    return write_ids_between(site, table, (start, end), site.write_ids(table, site.metastore.transactions.snapshot()))


def test_two_moments_of_a_table(site: Site, open_table: OpenTable) -> None:
    first = latest_commits(site, "db.t")
    open_table.append(pa.table({"i": [3]}))
    second = latest_commits(site, "db.t")
    start, end = between(site, first, second)
    assert end.committed_since(start) == [2]
    assert between(site, replace(first, write_ids=str(NOTHING)), second)[0] == NOTHING


def test_a_table_that_was_made_anew_is_another_one(site: Site, open_table: OpenTable, warehouse: Path) -> None:
    first = latest_commits(site, "db.t")
    Store(site).drop_table("db.t")
    shutil.rmtree(warehouse / "t")
    Store(site).create_table("db.t", {"i": "int"})
    with pytest.raises(Refused, match=r"dropped and re-created; start the query with a new checkpoint"):
        between(site, first, latest_commits(site, "db.t"))


def test_a_metastore_that_went_back_is_told_of(site: Site, open_table: OpenTable) -> None:
    first = latest_commits(site, "db.t")
    later = replace(first, write_ids=first.write_ids.replace("db.t:1:", "db.t:9:"))
    with pytest.raises(Refused, match=r"write IDs up to 1, the stream is at 9: the metastore was restored"):
        between(site, first, later)


def test_a_rebalance_with_an_order_is_seen_where_it_gives_old_rows_new_write_ids(
    site: Site, open_table: OpenTable
) -> None:
    first = latest_commits(site, "db.t")
    compact(site, "rebalance", table="db.t")
    clean_all(site)
    plain = latest_commits(site, "db.t")
    between(site, first, plain)
    request_compaction(site, table="db.t", type="rebalance", rebalance=RebalanceOptions(order_by="i"))
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    sorted_ = latest_commits(site, "db.t")
    with pytest.raises(Refused, match=r"rebalanced with order by i \(compaction \d+\).*cannot be told from new ones"):
        between(site, plain, sorted_)
    between(site, sorted_, sorted_)
    between(site, replace(first, write_ids=str(NOTHING)), sorted_)


@pytest.mark.parametrize("place", [0, 1], ids=["rows", "delete events"])
def test_a_task_reads_no_other_file_of_the_same_name_and_length(
    deployment: Site, warehouse: Path, table: Table, place: int
) -> None:
    """PROTOCOL 13.3: such as that of a table that was dropped and created again."""
    store = Store(deployment)
    numbers = store.create_table("d.n", {"i": "int"})
    numbers.append(pa.table({"i": [1, 2]}))
    numbers.delete("i = 1")
    with transaction(deployment) as txn:
        plan = add_versions(plan_scan(txn, named_table(deployment, "d.n"), ScanRequest()), deployment.storage)
    (task,) = plan.tasks
    assert [batch.to_pylist() for batch in read_task(plan, task, deployment.storage)] == [[{"i": 2}]]
    file = Path(task.paths[place])
    shutil.copyfile(file, file.with_name("_copy"))
    file.unlink()
    file.with_name("_copy").rename(file)
    with pytest.raises(SnapshotExpired, match=f"{file} was replaced since it was listed"):
        list(read_task(plan, task, deployment.storage))
