from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import NotSupported
from compactor.compaction.queue_entry import Entity
from compactor.initiator.candidate_scan import DISAGREEMENT, CandidateScan
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from tests.support.tables import entity_of, insert, make_table, with_settings

GONE = Entity(database="default", table="gone")


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_compactor_delta_num_threshold="2", compactor_mode="clean")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for value in range(4):
        insert(site, table, [value])
    return table


def test_a_scan_knows_what_was_written_and_what_is_there(site: Site, table: Table) -> None:
    scan = CandidateScan(site)
    assert scan.candidate_tables() == {("default", table.name): 4}
    assert (scan.tables.exists(entity_of(table)), scan.tables.exists(GONE)) == (True, False)
    assert scan.tables.exists(Entity(database="default", table=table.name, partition="p=1")) is False


def test_a_scan_that_may_not_write_judges_alike_and_requests_nothing(site: Site, table: Table) -> None:
    judged = CandidateScan(site, write=False).consider(entity_of(table))
    assert judged == CandidateScan(site).consider(entity_of(table))
    assert (judged.outcome, judged.entry_id) == ("major", None)
    assert CandidateScan(site, write=False).request([judged]) == [judged]
    assert site.metastore.entries.queue() == []
    (requested,) = CandidateScan(site).request([judged])
    assert requested.entry_id == site.metastore.entries.queue()[0].id


def test_a_table_is_read_once_in_a_scan(site: Site, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer is kept for the rest of the pass, an error like a table."""
    scan, read = CandidateScan(site), []

    def fails(_database: str, name: str) -> Table:
        read.append(name)
        raise NotSupported(f"{name}: of another world")

    monkeypatch.setattr(site.metastore.catalog, "table", fails)
    assert [scan.consider(entity_of(table)).outcome for _ in range(2)] == ["error", "error"]
    assert scan.tables.exists(entity_of(table)), "nobody knows that it is gone"
    assert read == [table.name]


def test_a_number_that_was_never_given_is_a_disagreement(site: Site, table: Table) -> None:
    """PROTOCOL 11.3, 11.6."""
    (Path(table.location) / "delta_0000099_0000099_0000").mkdir()
    judged = CandidateScan(site).consider(entity_of(table))
    assert judged.outcome == DISAGREEMENT
    assert "write ID 99 was never allocated" in judged.because


def test_what_is_seen_is_what_people_are_shown(site: Site, table: Table) -> None:
    scan = CandidateScan(site)
    judged = scan.consider(entity_of(table))
    seen = scan.as_seen(judged)
    assert (seen.entity, seen.outcome, seen.because, seen.at) == (
        entity_of(table),
        judged.outcome,
        judged.because,
        scan.now_ms,
    )
    assert seen.condition is not None
    assert seen.last_compacted is None
