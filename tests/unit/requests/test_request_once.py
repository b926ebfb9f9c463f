from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import NotFound, Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.requests.abort import abort_compaction
from compactor.requests.request import RequestWords, request_compaction
from compactor.requests.request_once import request_once
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.partitioned import add_partition, insert_into, make_partitioned
from tests.support.passes import clean_all
from tests.support.tables import insert, make_table, with_settings

WORDS = RequestWords(table="default.t", type="auto")


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_compactor_delta_num_threshold="1", hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    """Two deltas: due."""
    made = make_table(site, warehouse)
    for value in (1, 2):
        insert(site, made, [value])
    return made


def test_a_run_asks_once_however_often_it_is_tried(site: Site, table: Table) -> None:
    (first,) = request_once(site, WORDS, "d/r/t/-1")
    (again,) = request_once(site, WORDS, "d/r/t/-1")
    assert (first.entry_id, first.type) == (again.entry_id, "major")
    assert first.because.startswith("2 deltas > 1")
    assert again.because == "it was asked for already"
    assert [entry.id for entry in site.metastore.entries.queue()] == [first.entry_id]


def test_it_is_found_in_the_history_too(site: Site, table: Table) -> None:
    (first,) = request_once(site, WORDS, "run")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    assert site.metastore.entries.get(first.entry_id).state is State.SUCCEEDED
    (again,) = request_once(site, WORDS, "run", only_if_due=False)
    assert again.entry_id == first.entry_id
    assert request_once(site, WORDS, "another run") == []


def test_what_ended_badly_is_asked_for_again(site: Site, table: Table) -> None:
    (first,) = request_once(site, WORDS, "run")
    abort_compaction(site, first.entry_id)
    (again,) = request_once(site, WORDS, "run")
    assert again.entry_id > first.entry_id
    assert [entry.id for entry in site.metastore.entries.queue()] == [again.entry_id]


def test_what_somebody_else_has_queued_is_not_queued_twice(site: Site, table: Table) -> None:
    (theirs,) = request_compaction(site, table="default.t", type="minor")
    (found,) = request_once(site, WORDS, "run")
    assert (found.entry_id, found.type) == (theirs.entry_id, "minor")
    assert found.because.startswith("it is queued already: compactor-")


def test_a_calm_table_is_asked_for_only_if_it_is_meant(site: Site, warehouse: Path) -> None:
    insert(site, make_table(site, warehouse), [1])
    assert request_once(site, WORDS, "run") == []
    (one,) = request_once(site, WORDS, "run", only_if_due=False)
    assert (one.type, one.because) == ("major", "it was asked for")


def test_of_partitions_only_those_that_are_due(site: Site, warehouse: Path) -> None:
    table = make_partitioned(site, warehouse)
    for value in (1, 2):
        add_partition(site, table, value)
    for value in (1, 1, 2):
        insert_into(site, table, value, [value])
    asked = request_once(site, WORDS, "run")
    assert [one.to_json()["partition"] for one in asked] == ["p=1"]
    every = request_once(site, WORDS, "run", only_if_due=False)
    assert sorted(str(one.entity.partition) for one in every) == ["p=1", "p=2"]
    assert len(site.metastore.entries.queue()) == 2


def test_what_is_not_there_or_not_allowed_is_told(site: Site, table: Table) -> None:
    with pytest.raises(NotFound, match=r"default\.gone"):
        request_once(site, RequestWords(table="default.gone", type="auto"), "run")
    observing = with_settings(site, compactor_mode="observe", hive_compactor_delta_num_threshold="1")
    with pytest.raises(Refused, match="observe"):
        request_once(observing, WORDS, "run")
