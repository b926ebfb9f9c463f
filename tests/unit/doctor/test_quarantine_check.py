"""Findings of the doctor about quarantine (PROTOCOL 11.15)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.doctor.storage_checks import check_storage
from compactor.site.finding import Finding, Level
from compactor.site.site import Site, own_state
from compactor.state.state_tables import QUARANTINES
from compactor.storage.capabilities import LOCAL, Capabilities
from compactor.storage.local import LocalStorage
from tests.support.passes import clean_all, compact
from tests.support.tables import insert, make_table, with_settings


def found(site: Site) -> list[Finding]:
    return [finding for finding in check_storage(site) if finding.subject == "quarantine"]


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    """A site that keeps the two deltas that its only compaction replaced."""
    site = with_settings(deployment, compactor_quarantine="7d", hive_txn_opentxn_timeout="1ms")
    table = make_table(site, warehouse)
    for value in (1, 2):
        insert(site, table, [value])
    assert found(site) == []
    compact(site)
    clean_all(site)
    return site


def test_what_it_holds(site: Site) -> None:
    assert [(finding.level, finding.found) for finding in found(site)] == [(Level.OK, "1 quarantines, 0 MB")]


def test_what_nobody_erases(site: Site) -> None:
    with own_state(site).database.write() as conn:
        conn.execute(update(QUARANTINES).values(UNTIL=1))
    late, _ = found(site)
    assert (late.level, "1 quarantines are overdue" in late.found) == (Level.WARN, True)


def test_what_our_state_does_not_list(site: Site, warehouse: Path) -> None:
    stray = warehouse / "t" / ".compactor_quarantine_99"
    stray.mkdir()
    warned, _ = found(site)
    assert (warned.level, warned.found) == (Level.WARN, f"not listed in our state: {stray}")


@pytest.mark.parametrize("mode", ["compact", "clean"])
def test_a_store_that_cannot_keep(site: Site, mode: str) -> None:
    class WithoutRename(LocalStorage):
        def capabilities(self, path: str) -> Capabilities:
            return replace(LOCAL, store="S3", renames=False)

    there = replace(with_settings(site, compactor_quarantine="7d", compactor_mode=mode), storage=WithoutRename())
    failed = [finding for finding in found(there) if finding.level is Level.FAIL]
    assert len(failed) == (mode == "clean")
    assert all("the store cannot keep directories" in finding.found for finding in failed)
