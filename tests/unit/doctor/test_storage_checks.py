from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from compactor.acid.names import staging_name
from compactor.doctor import checks as doctor
from compactor.metastore.catalog.embedded import NewTable
from compactor.site.finding import Finding, Level
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from demo.fixtures import register_fixture
from tests.support.expected import step
from tests.support.tables import with_settings

CALM = "hive-4.1/f1_basic/s9_major_cleaned"


def found(site: Site, subject: str) -> Finding:
    (finding,) = [f for f in doctor.doctor(site) if f.subject == subject]
    return finding


def test_a_location_in_an_unknown_storage_fails(deployment: Site, warehouse: Path) -> None:
    table = register_fixture(deployment.metastore, step(CALM), warehouse)
    deployment.metastore.embedded_catalog.create_table(
        NewTable("default", "far", "s3a://bucket/far", list(table.columns), parameters=dict(table.parameters))
    )
    finding = found(deployment, "storage")
    assert finding.level is Level.FAIL
    assert "s3a" in finding.found
    assert finding.fix


def test_the_guarantees_of_the_stores_in_use_are_shown(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step(CALM), warehouse)
    assert found(deployment, "guarantees").found.startswith(
        "1 directories in local or mounted directory: a directory is"
    )


@pytest.mark.parametrize(
    ("mode", "reported"), [("observe", False), ("request", False), ("compact", True), ("clean", True)]
)
def test_a_directory_that_cannot_be_written_is_reported_if_we_compact(
    deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch, mode: str, reported: bool
) -> None:
    register_fixture(deployment.metastore, step(CALM), warehouse)
    monkeypatch.setattr(LocalStorage, "may_write", lambda self, path: not path.endswith("f1_basic"))
    site = with_settings(deployment, compactor_mode=mode)
    findings = [f for f in doctor.doctor(site) if f.subject == "writing"]
    assert [f.level for f in findings] == [Level.WARN] * reported
    assert all("this user may not write to" in f.found and "f1_basic" in f.found for f in findings)


def test_a_missing_directory_fails(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step(CALM), warehouse)
    shutil.rmtree(warehouse / "f1_basic")
    finding = found(deployment, "storage")
    assert finding.level is Level.FAIL
    assert "f1_basic" in finding.found


def test_staging_of_a_dead_compaction_is_an_orphan(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 3.1: only our own sweep removes it, so the doctor has to report it."""
    register_fixture(deployment.metastore, step(CALM), warehouse)
    (living,) = deployment.metastore.transactions.open("ann", "h")
    (dead,) = deployment.metastore.transactions.open("ann", "h")
    deployment.metastore.transactions.abort(dead, "killed")
    for txn in (living, dead):
        (warehouse / "f1_basic" / staging_name(txn)).mkdir()
    finding = found(deployment, "orphans")
    assert finding.level is Level.WARN
    assert staging_name(dead) in finding.found
    assert staging_name(living) not in finding.found


def test_a_malformed_directory_name_fails(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step(CALM), warehouse)
    (warehouse / "f1_basic" / "delta_copy").mkdir()
    finding = found(deployment, "directory names")
    assert finding.level is Level.FAIL
    assert "delta_copy" in finding.found
