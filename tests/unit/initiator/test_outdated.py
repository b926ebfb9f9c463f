from __future__ import annotations

from pathlib import Path

import pytest

from compactor.answers.overview import tables_page
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entity
from compactor.initiator import outdated
from compactor.initiator.candidate_scan import CandidateScan
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
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


def test_a_candidate_is_not_considered_twice_in_a_pass(site: Site, table: Table) -> None:
    """The second time it would be skipped, as the pass has just requested a compaction of it."""
    later = site.metastore.now_ms() // 1000 + 3600
    site.metastore.embedded_catalog.set_table_parameters(table, {"transient_lastDdlTime": str(later)})
    initiate(site)
    assert list(shown(site).values()) == ["major"]


def test_what_was_compacted_since_the_last_look_is_considered_again(site: Site, compacted: Table) -> None:
    scan = CandidateScan(site)
    assert list(shown(site).values()) == ["major"]
    outdated.reconsider(scan, own(site).decisions.newest(site.name, PASS))
    assert list(shown(site).values()) == ["notneeded"]


def test_what_had_ended_long_before_is_left_to_a_full_sweep(
    site: Site, compacted: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    scan = CandidateScan(site)
    outdated.reconsider(scan, scan.now_ms + 3_600_000)
    assert list(shown(site).values()) == ["major"]
    monkeypatch.setattr(outdated, "is_due", lambda *_: True)
    outdated.reconsider(scan, scan.now_ms + 3_600_000)
    assert list(shown(site).values()) == ["notneeded"]


def test_tables_that_are_gone_are_forgotten(site: Site, table: Table, warehouse: Path) -> None:
    other = make_table(site, warehouse, "other")
    insert(site, other, [1])
    initiate(site)
    site.metastore.embedded_catalog.drop_table(table)
    outdated.reconsider(CandidateScan(site), None)
    assert [entity.table for entity in shown(site)] == ["other"]


@pytest.fixture
def calm(deployment: Site, warehouse: Path) -> Site:
    """A table with a write, an empty one, a partitioned one with two empty partitions, and one that is not transactional."""
    embedded = deployment.metastore.embedded_catalog
    insert(deployment, make_table(deployment, warehouse, "written"), [1])
    make_table(deployment, warehouse, "empty")
    keys = [Column(name="p", type="int")]
    columns = [Column(name="a", type="int")]
    acid = {"transactional": "true"}
    parted = embedded.create_table(
        NewTable("default", "parted", f"{warehouse}/parted", columns, partition_keys=keys, parameters=acid)
    )
    for value in ("1", "2"):
        embedded.add_partition(parted, [value])
        (warehouse / "parted" / f"p={value}").mkdir(parents=True)
    embedded.create_table(NewTable("default", "plain", f"{warehouse}/plain", columns))
    return deployment


def list_rows(site: Site) -> list[tuple[object, object, object]]:
    page = tables_page(site, find="", outcome="", order="table", descending=False, limit=99, offset=0)
    return [(row["table"], row["partition"], row["outcome"]) for row in page.rows]


def test_tables_without_a_recorded_write_are_shown_too(calm: Site) -> None:
    (considered,) = initiate(calm).considered
    assert considered.entity.table == "written"
    assert list_rows(calm) == [
        ("default.empty", None, "notneeded"),
        ("default.parted", "p=1", "notneeded"),
        ("default.parted", "p=2", "notneeded"),
        ("default.written", None, "notneeded"),
    ]


def test_a_sweep_is_due_after_some_check_intervals(calm: Site) -> None:
    now = calm.metastore.now_ms()
    wait = 300_000 * 12
    found = outdated.find_next_unrecorded(calm, own(calm), now)
    assert found is not None
    assert [str(entity) for entity in found] == [
        "default.empty",
        "default.parted/p=1",
        "default.parted/p=2",
        "default.written",
    ]
    outdated.record_sweep(calm, own(calm), outdated.MAX_PER_PASS, now)
    assert outdated.find_next_unrecorded(calm, own(calm), now) == found
    outdated.record_sweep(calm, own(calm), 4, now)
    assert outdated.find_next_unrecorded(calm, own(calm), now + wait - 1) is None
    assert outdated.find_next_unrecorded(calm, own(calm), now + wait) == found


def test_a_long_sweep_continues_in_the_next_pass(calm: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outdated, "MAX_PER_PASS", 2)
    initiate(calm)
    assert len(list_rows(calm)) == 3
    initiate(calm)
    assert len(list_rows(calm)) == 4
    assert own(calm).decisions.newest(calm.name, outdated.ROLE) is not None


def test_nothing_is_requested_where_no_write_is_recorded(calm: Site, warehouse: Path) -> None:
    """Files that no metastore knows of: their numbers are shown, and that a person has to request a compaction."""
    table = make_table(calm, warehouse, "moved")
    for value in (1, 2, 3):
        insert(calm, table, [value])
    with calm.metastore.database.write() as conn:
        conn.exec_driver_sql("DELETE FROM COMPLETED_TXN_COMPONENTS WHERE CTC_TABLE = 'moved'")
    site = with_settings(calm, hive_compactor_delta_num_threshold="2")
    assert [c.entity.table for c in initiate(site).considered] == ["written"]
    assert site.metastore.entries.queue() == []
    seen = own(site).conditions.for_entities(site.name, [Entity(database="default", table="moved")])
    (moved,) = seen.values()
    assert moved.outcome == "major"
    assert moved.because.endswith("no write has been recorded since, so a person has to request it")
