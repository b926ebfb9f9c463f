from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.requests.request import (
    RebalanceOptions,
    WaitTimedOut,
    request_compaction,
    wait_for,
)
from compactor.site.site import Site
from tests.support.passes import compact
from tests.support.tables import insert, make_table


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
