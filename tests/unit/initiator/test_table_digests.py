"""``test_candidate_page`` has what changes a digest; here is what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compactor.compaction.queue_entry import Entity
from compactor.initiator.candidate_scan import CandidateScan
from compactor.initiator.table_digests import TableDigests
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from tests.support.partitioned import add_partition, insert_into, make_partitioned

NAME = ("default", "t")


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    table = make_partitioned(deployment, warehouse)
    for value in (1, 2):
        add_partition(deployment, table, value)
        insert_into(deployment, table, value, [1])
    return table


def digests(site: Site) -> dict[str | None, str]:
    scan = CandidateScan(site)
    writes = site.metastore.components.writes([NAME])[NAME]
    scan.tables.read_recorded({NAME: writes})
    found = scan.tables.load_table(Entity(database="default", table="t"))
    assert found is not None
    return dict(TableDigests(scan, NAME, found, writes).digests_of(sorted(writes, key=str)))


UNCHANGED: dict[str, Callable[[Site, Table], object]] = {
    "time": lambda site, table: None,
    "another property": lambda site, table: site.metastore.embedded_catalog.set_table_parameter(
        table, "transient_lastDdlTime", "7"
    ),
    "a reader": lambda site, table: site.metastore.transactions.open("ann", "h"),
    "a write elsewhere": lambda site, table: insert_into(site, table, 2, [2]),
}


@pytest.mark.parametrize("event", UNCHANGED)
def test_what_no_decision_depends_on_changes_no_digest(deployment: Site, table: Table, event: str) -> None:
    before = digests(deployment)["p=1"]
    UNCHANGED[event](deployment, table)
    assert digests(deployment)["p=1"] == before


def test_each_partition_has_its_own(deployment: Site, table: Table) -> None:
    found = digests(deployment)
    assert list(found) == ["p=1", "p=2"]
    assert len(set(found.values())) == 2
