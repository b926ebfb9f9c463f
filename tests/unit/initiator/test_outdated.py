from __future__ import annotations

from pathlib import Path

import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.entry import Entity
from compactor.initiator import outdated, unrecorded
from compactor.initiator.candidate_scan import Scan
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.state.decisions import PASS
from compactor.state.state_database import OwnState
from tests.support.passes import clean_all
from tests.support.tables import insert, make_table, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_compactor_delta_num_threshold="1", hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for value in (1, 2):
        insert(site, table, [value])
    return table


@pytest.fixture
def compacted(site: Site, table: Table) -> Table:
    """Found due, compacted and cleaned since, by somebody who stores no look, such as Hive."""
    initiate(site)
    found = own(site).conditions.page(site.name, limit=9)
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    own(site).conditions.record(site.name, found)
    return table


def own(site: Site) -> OwnState:
    assert site.state is not None
    return site.state


def shown(site: Site) -> dict[Entity, str]:
    return {seen.entity: seen.outcome for seen in own(site).conditions.page(site.name, limit=9)}


def test_what_was_compacted_since_the_last_look_is_considered_again(site: Site, compacted: Table) -> None:
    scan = Scan(site)
    assert list(shown(site).values()) == ["major"]
    outdated.reconsider(scan, own(site).decisions.newest(site.name, PASS))
    assert list(shown(site).values()) == ["notneeded"]


def test_what_had_ended_long_before_is_left_to_a_full_sweep(
    site: Site, compacted: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = Scan(site)
    outdated.reconsider(scan, scan.now_ms + 3_600_000)
    assert list(shown(site).values()) == ["major"]
    monkeypatch.setattr(unrecorded, "is_due", lambda *_: True)
    outdated.reconsider(scan, scan.now_ms + 3_600_000)
    assert list(shown(site).values()) == ["notneeded"]


def test_tables_that_are_gone_are_forgotten(site: Site, table: Table, warehouse: Path) -> None:
    other = make_table(site, warehouse, "other")
    insert(site, other, [1])
    initiate(site)
    site.metastore.embedded_catalog.drop_table(table)
    outdated.reconsider(Scan(site), None)
    assert [entity.table for entity in shown(site)] == ["other"]
