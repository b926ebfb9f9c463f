"""Rows of the queue that Hive's own roles take: of Iceberg tables (Hive 4.1 and later), and of its soft delete."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert as sql_insert
from sqlalchemy import select

from compactor.answers import overview
from compactor.answers.explain import explain
from compactor.answers.show_compactions import CompactionFilter, show_compactions
from compactor.base.errors import Refused
from compactor.batches.assembly import plan_batches
from compactor.batches.driver import run_entries
from compactor.cleaner.blockers import blocked_entries
from compactor.doctor.metastore_checks import check_queue
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE
from compactor.requests.abort import abort_compaction
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.finding import Level
from compactor.site.site import Site
from tests.support.passes import compact, every_role
from tests.support.tables import insert, make_table, rows_of, with_settings
from tests.support.watching import files_below

_DAY_MS = 86_400_000
_ICEBERG = "the compactor of Hive, which alone compacts Iceberg tables"


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_worker_timeout="1s")


@pytest.fixture
def iceberg(site: Site, warehouse: Path) -> Path:
    """An Iceberg table as Hive 4.1 creates it, with one file."""
    location = warehouse / "ice"
    (location / "data").mkdir(parents=True)
    (location / "data" / "00000-0.orc").write_bytes(b"rows")
    parameters = {"table_type": "ICEBERG", "EXTERNAL": "TRUE", "bucketing_version": "2"}
    site.metastore.embedded_catalog.create_database("default", str(warehouse))
    site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "ice",
            str(location),
            [Column(name="a", type="int")],
            type="EXTERNAL_TABLE",
            parameters=parameters,
            input_format="org.apache.iceberg.mr.hive.HiveIcebergInputFormat",
        )
    )
    return location


def queue(site: Site, number: int, state: str, **values: object) -> int:
    """Inserts a row as Hive's ``InsertCompactionRequestCommand`` does."""
    row: dict[str, Any] = {
        "CQ_ID": 700 + number,
        "CQ_DATABASE": "default",
        "CQ_TABLE": "ice",
        "CQ_STATE": state,
        "CQ_TYPE": "a",
        "CQ_ENQUEUE_TIME": site.metastore.now_ms() - _DAY_MS,
        "CQ_INITIATOR_ID": "hms-1",
        "CQ_INITIATOR_VERSION": "4.1.0",
        "CQ_RETRY_RETENTION": 0,
        **values,
    }
    with site.metastore.database.write() as conn:
        conn.execute(sql_insert(COMPACTION_QUEUE).values(**row))
    return int(row["CQ_ID"])


def rows_of_queue(site: Site) -> Mapping[int, dict[str, object]]:
    with site.metastore.database.read() as conn:
        return {row["CQ_ID"]: dict(row) for row in conn.execute(select(COMPACTION_QUEUE)).mappings()}


def test_no_role_touches_rows_of_iceberg_tables(site: Site, warehouse: Path, iceberg: Path) -> None:
    """Also where Hive's worker seems lost: it opens no transaction for an Iceberg table and has a heartbeat of its own."""
    working = {"CQ_WORKER_ID": "hms-1-42", "CQ_START": 1_000, "CQ_WORKER_VERSION": "4.1.0", "CQ_TXN_ID": 0}
    ids = [
        queue(site, 1, "i"),
        queue(site, 2, "i", CQ_PARTITION="p=1", CQ_TYPE="i", CQ_POOL_NAME="default"),
        queue(site, 3, "i", CQ_PARTITION="p=2", CQ_TYPE="s"),
        queue(site, 4, "w", CQ_PARTITION="p=3", **working),
        queue(site, 5, "r", CQ_PARTITION="p=4", CQ_HIGHEST_WRITE_ID=0, **working),
    ]
    before, files = rows_of_queue(site), files_below(iceberg)
    table = make_table(site, warehouse)
    insert(site, table, [1])
    insert(site, table, [2])
    assert compact(site).entry.entity.table == "t"  # a request that came later is not held up
    assert plan_batches(site) == []
    assert run_entries(site, ids, InProcessRunner()).outcomes == ()  # also where they are named
    every_role(site)
    assert {number: rows_of_queue(site)[number] for number in ids} == before
    assert files_below(iceberg) == files
    for number in ids:
        with pytest.raises(Refused, match=f"compaction {number} of default.ice.* Iceberg"):
            abort_compaction(site, number)
    with pytest.raises(Refused, match="is an Iceberg table, which Hive's own compactor compacts"):
        request_compaction(site, table="default.ice")


def test_rows_left_to_hive_are_shown_as_such(site: Site, iceberg: Path) -> None:
    waiting = queue(site, 1, "i", CQ_PARTITION="p=1", CQ_TYPE="s")
    lost = queue(site, 2, "i", CQ_TABLE="dropped", CQ_TYPE="s")
    rows = {row.compactionid: (row.type, row.left_to) for row in show_compactions(site, CompactionFilter())}
    assert rows == dict.fromkeys((waiting, lost), ("SMART_OPTIMIZE", _ICEBERG))
    page = overview.queue_page(site, find="", state=None, limit=9, offset=0)
    assert [(row["waits_for"], row["can_cancel"]) for row in page.rows] == [(_ICEBERG, False)] * 2
    (queued,) = explain(site, "default.ice").queue_elsewhere
    assert (queued.entry.id, queued.waits_for) == (
        waiting,
        _ICEBERG,
    )
    finding, others = check_queue(site)
    assert (finding.level, finding.subject) == (Level.WARN, "rows left to Hive")
    assert f"{waiting} (default.ice/p=1)" in finding.found
    assert (others.level, others.found) == (Level.OK, "0 entries, none is stuck")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, [1])
    insert(site, table, [2])
    return table


def test_no_role_touches_rows_of_soft_deleted_tables(site: Site, warehouse: Path, table: Table) -> None:
    """The table of that name is another one by now, and is compacted and cleaned meanwhile."""
    gone = warehouse / "t.v7" / "delta_0000001_0000001_0000"
    gone.mkdir(parents=True)
    (gone / "bucket_00000").write_bytes(b"rows")
    soft = {"CQ_TBLPROPERTIES": f"2:8:location{len(str(gone.parent))}:{gone.parent}7:ifPurge4:true"}
    stamps = {"CQ_HIGHEST_WRITE_ID": 2, "CQ_TXN_ID": 1, "CQ_NEXT_TXN_ID": 1, "CQ_COMMIT_TIME": 1_000}
    number = queue(site, 1, "r", CQ_TABLE="t", **soft, **stamps)
    before = rows_of_queue(site)[number]
    compact(site)
    every_role(site)
    assert rows_of_queue(site) == {number: before}
    assert (gone / "bucket_00000").exists()
    assert len(rows_of(site, table)) == 2
    assert [name for name in Path(table.location).iterdir() if name.name.startswith("base_")]
    with pytest.raises(Refused, match="soft-deleted"):
        abort_compaction(site, number)
    assert blocked_entries(site) == ()
    (row,) = (row for row in show_compactions(site, CompactionFilter()) if row.compactionid == number)
    assert row.left_to == "the cleaner of Hive, which alone removes soft-deleted files"
