from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.requests import request
from compactor.requests.abort import abort_compaction
from compactor.requests.request import (
    RebalanceOptions,
    RequestWords,
    WaitTimedOut,
    request_compaction,
    request_once,
    wait_for,
)
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.partitioned import add_partition, insert_into, make_partitioned
from tests.support.passes import clean_all, compact
from tests.support.tables import insert, make_table, with_settings

WORDS = RequestWords(table="default.t", type="auto")


@pytest.fixture
def parted(deployment: Site, warehouse: Path) -> Table:
    embedded = deployment.metastore.embedded_catalog
    embedded.create_database("default", str(warehouse))
    table = embedded.create_table(
        NewTable(
            "default",
            "p",
            str(warehouse / "p"),
            [Column(name="a", type="int")],
            partition_keys=[Column(name="k", type="string")],
            parameters={"TRANSACTIONAL": "TRUE"},
        )
    )
    for value in ("x", "y z"):
        embedded.add_partition(table, [value])
    return table


def test_without_a_partition_every_partition_is_requested(deployment: Site, parted: Table) -> None:
    asked = request_compaction(deployment, table="p", type="minor", pool="night")
    assert [a.entity.partition for a in asked] == [e.entity.partition for e in deployment.metastore.entries.queue()]
    assert len(asked) == 2
    for entry in deployment.metastore.entries.queue():
        assert (entry.state, entry.type, entry.pool) == (State.INITIATED, CompactionType.MINOR, "night")
        assert (entry.initiator_id or "").startswith("compactor-")


@pytest.mark.parametrize("spelt", ["k=x", "k='x'"])
def test_a_partition_as_stored_or_as_a_person_writes_it(deployment: Site, parted: Table, spelt: str) -> None:
    (asked,) = request_compaction(deployment, table="default.p", partition=spelt)
    assert asked.entity.partition == "k=x"


def test_partitions_already_queued_are_reported_and_the_rest_requested(deployment: Site, parted: Table) -> None:
    request_compaction(deployment, table="p", partition="k=x")
    again = {a.entity.partition: a for a in request_compaction(deployment, table="p")}
    assert "already scheduled" in (again["k=x"].refused or "")
    assert sum(a.entry_id is not None for a in again.values()) == 1
    with pytest.raises(Refused, match="already scheduled"):
        request_compaction(deployment, table="p")


def test_unknown_tables_and_bad_requests(deployment: Site, parted: Table) -> None:
    with pytest.raises(NotFound, match="gone"):
        request_compaction(deployment, table="gone")
    with pytest.raises(NotFound, match="k=gone"):
        request_compaction(deployment, table="p", partition="k=gone")
    with pytest.raises(Refused, match="no such column"):
        request_compaction(deployment, table="p", type="rebalance", rebalance=RebalanceOptions(order_by="nowhere"))
    with pytest.raises(BadSetting, match=r"compactor\.no"):
        request_compaction(deployment, table="p", properties={"compactor.no": "1"})
    assert deployment.metastore.entries.queue() == []


def test_a_rebalance_is_queued_as_hive_would(deployment: Site, parted: Table) -> None:
    asked = request_compaction(
        deployment, table="p", type="rebalance", rebalance=RebalanceOptions(buckets=3, order_by="A desc")
    )
    entries = deployment.metastore.entries.queue()
    assert len(entries) == len(asked)
    assert {(e.type, e.buckets, e.order_by) for e in entries} == {(CompactionType.REBALANCE, 3, "order by a desc")}


def test_waiting_ends_when_everything_is_compacted(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    insert(deployment, table, [2])
    outcome = compact(deployment)
    seen: list[Entry] = []
    (entry,) = wait_for(deployment, [outcome.entry.id], 5, progress=seen.extend)
    assert entry.state is State.READY_FOR_CLEANING
    assert [e.id for e in seen] == [entry.id]


def test_waiting_ends_when_its_time_is_over(deployment: Site, parted: Table) -> None:
    (asked,) = request_compaction(deployment, table="p", partition="k=x")
    assert asked.entry_id is not None
    with pytest.raises(WaitTimedOut, match=f"{asked.entry_id} is initiated; it continues in the background"):
        wait_for(deployment, [asked.entry_id], 0)


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


def test_a_run_joins_what_it_has_waited_for_whoever_requested_it(site: Site, table: Table) -> None:
    """The request has been compacted meanwhile, and waits for the cleaner: another one would be refused."""
    (theirs,) = request_compaction(site, table="default.t")
    (joined,) = request_once(site, WORDS, "d/r/t/-1", only_if_due=False)
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    assert site.metastore.entries.get(joined.entry_id).state is State.READY_FOR_CLEANING
    (again,) = request_once(site, WORDS, "d/r/t/-1", only_if_due=False)
    assert (again.entry_id, again.because) == (theirs.entry_id, "it was asked for already")
    with pytest.raises(Refused, match="ready for cleaning"):
        request_once(site, WORDS, "d/r/t/0", only_if_due=False)  # another task: it may have written since


def test_a_request_that_ends_while_it_is_joined_is_joined(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    (theirs,) = request_compaction(site, table="default.t")
    refuse = request.request_as

    def refuse_and_compact(*words: Any, **more: Any) -> Any:
        try:
            return refuse(*words, **more)
        finally:
            run_entries(site, list_claimable_ids(site), InProcessRunner())

    monkeypatch.setattr(request, "request_as", refuse_and_compact)
    (joined,) = request_once(site, WORDS, "run", only_if_due=False)
    assert joined.entry_id == theirs.entry_id


def test_the_most_urgent_requests_are_made_first(site: Site, warehouse: Path) -> None:
    table = make_partitioned(site, warehouse)
    for value, writes in ((1, 2), (2, 4), (3, 3)):
        add_partition(site, table, value)
        for row in range(writes):
            insert_into(site, table, value, [row])
    first = request_once(site, WORDS, "run", most=2)
    assert [request.entity.partition for request in first] == ["p=2", "p=3"]
    assert [r.entry_id for r in request_once(site, WORDS, "run", most=2)] == [r.entry_id for r in first]
    with pytest.raises(Refused, match="3 partitions are requested, but the scheduler takes 2"):
        request_once(site, WORDS, "another", only_if_due=False, most=2)
    assert len(site.metastore.entries.queue()) == 2


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
