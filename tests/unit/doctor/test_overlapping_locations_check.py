from __future__ import annotations

from pathlib import Path

from compactor.doctor.overlapping_locations_check import check_ground
from compactor.metastore.catalog.embedded import NewTable
from compactor.site.finding import Level
from compactor.site.site import Site
from tests.support.tables import make_table


def test_a_table_for_itself_is_well(deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse)
    assert [one.level for one in check_ground(deployment)] == [Level.OK]


def test_overlaps_fail_and_plain_tables_around_warn(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    create = deployment.metastore.embedded_catalog.create_table
    create(NewTable("default", "b", f"{table.location}/x", table.columns, parameters={"transactional": "true"}))
    create(NewTable("default", "around", str(warehouse), table.columns))
    refused, warned = check_ground(deployment)
    assert (refused.level, warned.level) == (Level.FAIL, Level.WARN)
    assert "default.t: does not have its directory" in refused.found
    assert "default.b: does not have its directory" in refused.found
    assert "default.around lies around it" in warned.found
