from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers.overview import table_rows
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entity
from compactor.initiator import fresh_look
from compactor.initiator.fresh_look import look_at
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.state.decisions import PASS
from compactor.state.seen_conditions import SeenEntity
from compactor.state.state_database import OwnState
from tests.support.passes import clean_all
from tests.support.tables import entity_of, insert, make_table, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_compactor_delta_num_threshold="1", hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def due(site: Site, warehouse: Path) -> Table:
    """Two deltas, found due by a pass."""
    table = make_table(site, warehouse)
    for value in (1, 2):
        insert(site, table, [value])
    initiate(site)
    return table


def own(site: Site) -> OwnState:
    assert site.state is not None
    return site.state


def shown(site: Site) -> SeenEntity:
    (seen,) = own(site).conditions.page(site.name, limit=9)
    return seen


def figures(seen: SeenEntity) -> tuple[int, int]:
    assert seen.condition is not None
    return seen.condition.deltas, seen.condition.obsolete


def test_what_is_shown_is_true_after_each_step_of_a_compaction(site: Site, due: Table) -> None:
    assert (shown(site).outcome, figures(shown(site))) == ("major", (2, 0))
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    committed = shown(site)
    assert (committed.outcome, figures(committed)) == ("notneeded", (0, 2))
    clean_all(site)
    cleaned = shown(site)
    assert (cleaned.outcome, figures(cleaned)) == ("notneeded", (0, 0))
    assert 0 < (cleaned.last_compacted or 0) <= cleaned.at
    (row,) = table_rows(site, [cleaned])
    assert row["changed_at"] is None


def test_a_compaction_by_somebody_else_is_told_beside_an_older_look(site: Site, due: Table) -> None:
    before = shown(site)
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    (row,) = table_rows(site, [before])
    committed = row["last_compacted"]
    assert row["changed_at"] == committed is not None
    clean_all(site)
    (row,) = table_rows(site, [before])
    (entry,) = site.metastore.entries.history()
    assert row["changed_at"] == entry.cleaned_at
    assert row["last_compacted"] == shown(site).last_compacted == committed == entry.committed_at


def test_a_look_takes_the_place_of_the_one_before_but_not_of_a_pass(site: Site, due: Table) -> None:
    passed = own(site).decisions.newest(site.name, PASS)
    insert(site, due, [3])
    look = look_at(site, entity_of(due))
    assert (look.considered.because, figures(look.seen)) == ("compaction 1 of it is already initiated", (3, 0))
    assert shown(site) == look.seen
    assert [one.entity for one in own(site).decisions.in_force(site.name)] == [entity_of(due)]
    assert own(site).decisions.newest(site.name, PASS) == passed
    assert own(site).decisions.cursor(site.name) == entity_of(due)


def test_without_a_state_nothing_is_stored(site: Site, due: Table) -> None:
    before = shown(site)
    assert look_at(replace(site, state=None), entity_of(due)).considered.entity == entity_of(due)
    assert shown(site) == before


def test_what_is_gone_is_forgotten(site: Site, due: Table) -> None:
    site.metastore.embedded_catalog.drop_table(due)
    assert look_at(site, Entity(database="default", table="t")).considered.outcome == "skipped"
    assert own(site).conditions.page(site.name, limit=9) == []


def test_a_pass_looks_at_no_more_than_so_many(site: Site, due: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fresh_look, "MOST", 0)
    before = shown(site)
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    assert shown(site) == before
