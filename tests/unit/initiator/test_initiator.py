from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import DatabaseUnavailable, StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.claim_order import reason_of_urgency
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType, State
from compactor.initiator import initiator
from compactor.initiator.fresh_look import look_at
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.metastore.queue.requests import Requests
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.state.decisions import Decisions
from compactor.state.seen_conditions import Conditions
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from compactor.worker.under_way import Options
from tests.support.passes import clean_all, compact, with_storage
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(
        deployment, hive_compactor_delta_num_threshold="2", hive_compactor_worker_pool="night", compactor_mode="clean"
    )


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for value in range(4):
        insert(site, table, [value])
    return table


def test_due_entities_are_enqueued_with_their_reason(site: Site, table: Table) -> None:
    done = initiate(site)
    (considered,) = done.considered
    (entry,) = site.metastore.entries.queue()
    assert (considered.entity, considered.entry_id) == (entity_of(table), entry.id)
    assert (entry.state, entry.pool) == (State.INITIATED, "night")
    assert considered.outcome == entry.type.label.lower()
    assert "4" in considered.because
    assert done.enqueued == (("night", entry.id),)
    assert done.to_json()["enqueued"] == [{"pool": "night", "compaction": entry.id}]
    assert site.state is not None
    (decided,) = site.state.decisions.in_force(site.name)
    assert decided.because == considered.because


def test_a_second_pass_requests_nothing_twice(site: Site, table: Table) -> None:
    initiate(site)
    (considered,) = initiate(site).considered
    assert considered.entry_id is None
    assert len(site.metastore.entries.queue()) == 1


def test_strictly_more_than_the_threshold(site: Site, warehouse: Path) -> None:
    """As in Hive: ``>``."""
    table = make_table(site, warehouse)
    insert(site, table, [1])
    insert(site, table, [2])
    assert initiate(site).considered[0].outcome == "notneeded"
    insert(site, table, [3])
    assert initiate(site).considered[0].entry_id is not None


def test_considering_writes_nothing(site: Site, table: Table) -> None:
    assert look_at(site, entity_of(table)).considered.decision is not None
    assert site.metastore.entries.queue() == []


def test_a_dropped_table_is_skipped(site: Site, table: Table) -> None:
    assert look_at(site, Entity(database="default", table="gone")).considered.outcome == "skipped"


def test_one_bad_table_never_stops_the_others(site: Site, table: Table, warehouse: Path) -> None:
    other = make_table(site, warehouse, "other")
    for value in range(4):
        insert(site, other, [value])

    class Broken(LocalStorage):
        def listing(self, path: str):  # type: ignore[no-untyped-def]
            if path == table.location:
                raise StorageError(f"cannot list {path}: Permission denied")
            return super().listing(path)

    considered = {c.entity.table: c for c in initiate(with_storage(site, Broken())).considered}
    assert (considered["t"].outcome, considered["t"].entry_id) == ("error", None)
    assert "Permission denied" in considered["t"].because
    assert considered["other"].entry_id is not None


def test_a_table_is_considered_again_when_it_was_written_again(site: Site, table: Table) -> None:
    assert compact(site, "major").entry.type is CompactionType.MAJOR
    assert initiate(site).enqueued == ()
    for value in range(4):
        insert(site, table, [10 + value])
    assert len(initiate(site).enqueued) == 1


def test_requests_are_made_together_and_reported_one_by_one(
    site: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(initiator, "RECORD_SIZE", 2)
    names = [f"t{number}" for number in range(5)]
    for name in names:
        table = make_table(site, warehouse, name)
        for value in range(1 if name == "t2" else 4):
            insert(site, table, [value])
    done = initiate(site)
    assert [c.entity.table for c in done.considered] == names
    assert [c.entry_id is None for c in done.considered] == [False, False, True, False, False]
    queued = {entry.entity: entry.id for entry in site.metastore.entries.queue()}
    assert {c.entity: c.entry_id for c in done.considered if c.entry_id is not None} == queued
    assert site.state is not None
    assert [d.entity for d in site.state.decisions.in_force(site.name)] == [c.entity for c in done.considered]


def test_a_refusing_queue_is_reported_for_each(site: Site, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(of: Requests, requests: object) -> None:
        raise DatabaseUnavailable("database gone")

    monkeypatch.setattr(Requests, "request_all", fails)
    done = initiate(site)
    assert [(c.outcome, c.because, c.entry_id) for c in done.considered] == [("error", "database gone", None)]
    assert done.enqueued == ()


def test_conditions_are_kept_for_people_to_see(site: Site, table: Table) -> None:
    assert site.state is not None
    initiate(site)
    (seen,) = site.state.conditions.page(site.name, limit=9)
    assert (seen.entity, seen.outcome) == (entity_of(table), "major")
    assert seen.flips == ("hive.compactor.delta.num.threshold of 4 or more",)
    assert seen.condition is not None
    assert (seen.condition.deltas, seen.condition.files, seen.condition.small_files) == (4, 4, 2)
    initiate(site)
    (again,) = site.state.conditions.page(site.name, limit=9)
    assert (again.outcome, again.condition) == ("skipped", seen.condition)


def test_a_compacted_table_is_recorded_as_not_due_once_it_is_no_candidate(site: Site, table: Table) -> None:
    assert site.state is not None
    initiate(site)
    run_entries(site, list_claimable_ids(site), InProcessRunner(), Options())
    clean_all(site)
    assert initiate(site).considered == ()
    (seen,) = site.state.conditions.page(site.name, limit=9)
    assert (seen.outcome, seen.because) == ("notneeded", "there are no deltas to merge")
    assert seen.condition is not None
    assert (seen.condition.deltas, seen.condition.health) == (0, 100)
    assert seen.last_compacted is not None


def test_a_dropped_table_is_forgotten(site: Site, table: Table) -> None:
    assert site.state is not None
    initiate(site)
    site.metastore.embedded_catalog.drop_table(table)
    initiate(site)
    assert site.state.conditions.page(site.name, limit=9) == []


def test_requests_are_made_though_nothing_can_be_recorded(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 11.14: decisions and conditions are for people; a state that fails does not end a pass."""

    def fail(*_: object, **__: object) -> None:
        raise DatabaseUnavailable("the state is away")

    for owner in (Decisions, Conditions):
        for name in ("record", "cursor", "unsettled", "newest", "entities"):
            monkeypatch.setattr(owner, name, fail, raising=False)
    (considered,) = initiate(site).considered
    (entry,) = site.metastore.entries.queue()
    assert (considered.entity, considered.entry_id) == (entity_of(table), entry.id)


@pytest.mark.parametrize("kept", ["delete_delta", "both"])
def test_what_trino_would_show_is_compacted_once(deployment: Site, warehouse: Path, kept: str) -> None:
    """A single delete delta of Hive 4 is due where Trino reads, and no longer afterwards; ours have no attempt number."""
    site = with_settings(deployment, compactor_readers="trino", hive_compactor_delta_pct_threshold="10")
    table = make_table(site, warehouse)
    insert(site, table, range(10))
    insert(site, table, [10])
    compact(site, "major")
    delete(site, table, [3])
    if kept == "both":
        insert(site, table, [20])
    (deletes,) = Path(table.location).glob("delete_delta_*/bucket_*")
    deletes.rename(deletes.with_name(f"{deletes.name}_0"))  # as Hive 4 names it
    before = rows_of(site, table)
    (considered,) = initiate(site).considered
    assert (considered.outcome, "attempt numbers" in considered.because) == ("minor", True)
    (queued,) = site.metastore.entries.waiting()
    assert reason_of_urgency(queued) is not None
    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert outcome.result is Result.COMPACTED
    (renamed,) = Path(table.location).glob("delete_delta_*_v*/bucket_*")
    assert renamed.name == deletes.name
    assert rows_of(site, table) == before
    assert initiate(site).considered[0].outcome != "minor"
