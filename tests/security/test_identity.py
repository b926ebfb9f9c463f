"""The user as whom applications run is the site's to say: no row, property or accident changes it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.batches.assembly import plan_batches
from compactor.cli.context import CliContext
from compactor.cli.spark_line import find_target, submit_line
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TBLS
from compactor.requests.request import request_compaction
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from tests.support.hostile import due_table
from tests.support.lost_workers import begun
from tests.support.tables import entity_of, with_settings


@pytest.fixture
def site(site: Site) -> Site:
    return with_settings(site, hive_compactor_run_as_user="hive", hive_compactor_job_queue="etl")


def users(site: Site) -> list[str | None]:
    """The users as whom applications would run now, by their command lines."""
    found = []
    for planned in plan_batches(site):
        line = [*submit_line("spark-submit", CliContext(), planned, find_target("/s/bin/spark-submit", None, None, {}))]
        found.append(line[line.index("--proxy-user") + 1] if "--proxy-user" in line else None)
    return found


def test_a_lost_worker_leaves_no_user_behind(site: Site, warehouse: Path) -> None:
    """It records a user in the row, and once that was the table's owner, who is whoever created the table."""
    table = due_table(site, warehouse, "t")
    with site.metastore.database.write() as conn:
        conn.execute(update(TBLS).values(OWNER="root"))
    _, txn = begun(site, table)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_RUN_AS="root"))
    site.metastore.transactions.abort(txn, "its time-out")
    assert [one.entry.run_as for one in repair(site)] == ["root"]
    assert users(site) == ["hive"]


def test_a_row_of_a_stranger_names_no_user(site: Site, hostile: Table) -> None:
    request_compaction(site, table="default.hostile", type="major")
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_RUN_AS="root"))
    assert users(replace(site, settings=with_settings(site).settings)) == [None]


def test_a_side_file_of_a_stranger_changes_no_user(site: Site, hostile: Table, neighbour: Table) -> None:
    for name in ("hostile", "neighbour"):
        request_compaction(site, table=f"default.{name}", type="major")
    for delta in Path(hostile.location).glob("delta_*"):
        (delta / "_metadata_acid").write_text("{}")
    assert users(site) == ["hive"]


def test_what_is_not_there_is_launched_as_nobody(site: Site, hostile: Table, neighbour: Table) -> None:
    """Not even as the service's own user: its entry ends by name, and the neighbour's goes on."""
    for name in ("hostile", "neighbour"):
        request_compaction(site, table=f"default.{name}", type="major")
    owned = with_settings(site, compactor_run_as_owner="true")
    shutil.rmtree(hostile.location)
    (planned,) = plan_batches(owned)
    (ended,) = owned.metastore.entries.history()
    assert planned.entries == 1
    assert ended.entity == entity_of(hostile)
    assert hostile.location in json.dumps(str(ended.error))
