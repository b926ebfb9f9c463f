"""Partitions that need a major compaction before an upgrade from Hive 2."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.hive2.upgrade_check import before_hive_3
from compactor.site.finding import Finding, Level
from compactor.site.site import Site
from demo.fixtures import register_fixture
from tests.support.expected import step
from tests.support.tables import delete, insert, make_table


def findings(site: Site, warehouse: Path, *steps: str) -> list[Finding]:
    for name in steps:
        register_fixture(site.metastore, step(name), warehouse)
    return before_hive_3(site.metastore.catalog, site.storage, is_upgraded=False)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("hive-2.3/f1_basic/s2_update", "delete_delta_"),
        ("hive-2.3/f1_basic/s6_minor_cleaned", "delete_delta_"),
        ("hive-2.3/f1_basic/s10_dml_over_base", "delete_delta_"),
        ("hive-2.3/f7_v1/s1_dml", "update or delete events between rows"),
        ("hive-2.3/f7_v1/s2_minor", "update or delete events between rows"),
    ],
)
def test_a_table_changed_since_its_last_major_is_reported(
    deployment: Site, warehouse: Path, name: str, said: str
) -> None:
    (finding,) = findings(deployment, warehouse, name)
    table = name.split("/")[1]
    assert (finding.level, finding.subject) == (Level.FAIL, f"default.{table}")
    assert said in finding.found
    assert finding.fix.endswith(f"in Hive 2, before the upgrade: ALTER TABLE default.{table} COMPACT 'major'")


def test_the_remedy_is_one_for_this_metastore(deployment: Site, warehouse: Path) -> None:
    """A later Hive's metastore is not compacted by us, and its Hive reads the events wrongly."""
    findings(deployment, warehouse, "hive-2.3/f1_basic/s2_update")
    catalog, storage = deployment.metastore.catalog, deployment.storage
    (beside,) = before_hive_3(catalog, storage, is_upgraded=False)
    assert beside.fix.startswith("`compactor --set compactor.mode=compact doctor --before-hive-3 --compact`, or")
    (upgraded,) = before_hive_3(catalog, storage, is_upgraded=True)
    assert "--compact" not in upgraded.fix
    assert "from before the upgrade" in upgraded.fix


@pytest.mark.parametrize(
    "name",
    [
        "hive-2.3/f1_basic/s1_insert",  # inserts alone are read right
        "hive-2.3/f1_basic/s8_major_done_not_cleaned",  # what the base holds does not count
        "hive-2.3/f1_basic/s9_major_cleaned",
        "hive-2.3/f7_v1/s3_major",
        "hive-2.3/f6_types/s2_major",
        "hive-3.1/f1_basic/s3_delete_insert",
        "hive-4.1/f1_basic/s3_delete_insert",
    ],
)
def test_nothing_left_to_do(deployment: Site, warehouse: Path, name: str) -> None:
    (finding,) = findings(deployment, warehouse, name)
    assert (finding.level, finding.found) == (
        Level.OK,
        "none of 1 directories of full ACID tables needs a major compaction",
    )


def test_rows_of_our_own_writer_need_nothing(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, range(10))
    delete(deployment, table, [3])
    assert [
        finding.level for finding in before_hive_3(deployment.metastore.catalog, deployment.storage, is_upgraded=False)
    ] == [Level.OK]


def test_the_statement_names_partitions_as_hive_does(deployment: Site, warehouse: Path) -> None:
    table = register_fixture(deployment.metastore, step("hive-4.1/f2_part/s3_major_x1_y2_sp3"), warehouse)
    partition = deployment.metastore.catalog.partitions(table)[-1]
    directory = Path(deployment.storage.resolve(partition.location)) / "delta_0000999_0000999_0000"
    directory.mkdir()
    events = sorted(step("hive-2.3/f7_v1/s1_dml").rglob("delta_0000033*/bucket_*"))[0]
    (directory / "bucket_00000").write_bytes(events.read_bytes())
    (finding,) = before_hive_3(deployment.metastore.catalog, deployment.storage, is_upgraded=False)
    assert partition.name in finding.subject
    p, q = partition.values
    assert f"default.f2_part PARTITION (p='{p}', q='{q}') COMPACT" in finding.fix


def test_an_unreadable_file_is_reported(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, range(10))
    broken = next(Path(table.location).rglob("bucket_00000"))
    broken.write_bytes(b"no ORC at all")
    (finding,) = before_hive_3(deployment.metastore.catalog, deployment.storage, is_upgraded=False)
    assert finding.level is Level.FAIL
    assert "bucket_00000" in finding.found
