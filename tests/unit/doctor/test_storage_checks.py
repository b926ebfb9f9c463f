from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.acid.names import staging_name
from compactor.doctor import checks as doctor
from compactor.doctor.storage_checks import check_storage
from compactor.metastore.catalog.embedded import NewTable
from compactor.site.finding import Finding, Level
from compactor.site.site import Site, own_state
from compactor.state.state_tables import QUARANTINES
from compactor.storage.capabilities import LOCAL, Capabilities
from compactor.storage.local import LocalStorage
from demo.fixtures import register_fixture
from tests.support.expected import step
from tests.support.passes import clean_all, compact
from tests.support.tables import insert, make_table, with_settings

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
    assert found(deployment, "guarantees").found.startswith("1 directory in local or mounted directory: a directory is")


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


def quarantine_findings(site: Site) -> list[Finding]:
    return [finding for finding in check_storage(site) if finding.subject == "quarantine"]


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    """A site that keeps the two deltas that its only compaction replaced."""
    site = with_settings(deployment, compactor_quarantine="7d", hive_txn_opentxn_timeout="1ms")
    table = make_table(site, warehouse)
    for value in (1, 2):
        insert(site, table, [value])
    assert quarantine_findings(site) == []
    compact(site)
    clean_all(site)
    return site


def test_what_it_holds(site: Site) -> None:
    assert [(finding.level, finding.found) for finding in quarantine_findings(site)] == [
        (Level.OK, "1 quarantines, 0 MB")
    ]


def test_what_nobody_erases(site: Site) -> None:
    with own_state(site).database.write() as conn:
        conn.execute(update(QUARANTINES).values(UNTIL=1))
    late, _ = quarantine_findings(site)
    assert (late.level, "1 quarantines are overdue" in late.found) == (Level.WARN, True)


def test_what_our_state_does_not_list(site: Site, warehouse: Path) -> None:
    stray = warehouse / "t" / ".compactor_quarantine_99"
    stray.mkdir()
    warned, _ = quarantine_findings(site)
    assert (warned.level, warned.found) == (Level.WARN, f"not listed in our state: {stray}")


@pytest.mark.parametrize("mode", ["compact", "clean"])
def test_a_store_that_cannot_keep(site: Site, mode: str) -> None:
    class WithoutRename(LocalStorage):
        def capabilities(self, path: str) -> Capabilities:
            return replace(LOCAL, store="S3", renames=False)

    there = replace(with_settings(site, compactor_quarantine="7d", compactor_mode=mode), storage=WithoutRename())
    failed = [finding for finding in quarantine_findings(there) if finding.level is Level.FAIL]
    assert len(failed) == (mode == "clean")
    assert all("the store cannot keep directories" in finding.found for finding in failed)
