from __future__ import annotations

from pathlib import Path

import pytest

from compactor.base.errors import CompactorError, Refused
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.initiator.due import due_in_database, due_in_table
from compactor.requests.pause import pause
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of
from tests.support.tables import entity_of, insert, make_table, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_compactor_delta_num_threshold="1")


def test_what_is_over_a_threshold_with_its_reason(site: Site, warehouse: Path) -> None:
    due, calm = make_table(site, warehouse, "due"), make_table(site, warehouse, "calm")
    for table in (due, due, calm):
        insert(site, table, [1])
    (found,) = due_in_table(site, due)
    assert (found.entity, found.type) == (entity_of(due), CompactionType.MAJOR)
    assert found.because.startswith("2 deltas > 1 (hive.compactor.delta.num.threshold)")
    assert due_in_table(site, calm) == []
    assert due_in_database(site, "default") == [found]
    assert due_in_database(site, "other") == []


def test_thresholds_alone_count(site: Site, warehouse: Path) -> None:
    """Neither a pause nor an owner's switch nor a queued request hides what is due from who asks by himself."""
    table = make_table(site, warehouse, no_auto_compaction="true")
    for value in (1, 2):
        insert(site, table, [value])
    pause(site, "default.t", "ann")
    request_compaction(site, table="default.t", type="minor")
    assert [one.entity for one in due_in_table(site, table)] == [entity_of(table)]


def test_partitions_with_recorded_writes_are_looked_at(site: Site, warehouse: Path) -> None:
    table = make_partitioned(site, warehouse)
    for value in (1, 2):
        add_partition(site, table, value)
    for value in (1, 1, 2):
        insert_into(site, table, value, [value])
    assert [one.entity for one in due_in_table(site, table)] == [partition_of(table, 1)]
    assert due_in_table(site, table, partition_of(table, 2).partition) == []


def test_the_most_urgent_comes_first(site: Site, warehouse: Path) -> None:
    table = make_partitioned(site, warehouse)
    for value, writes in ((1, 2), (2, 2), (3, 4)):
        add_partition(site, table, value)
        for row in range(writes):
            insert_into(site, table, value, [row])
    due = [candidate.entity.partition for candidate in due_in_table(site, table)]
    assert due[0] == "p=3"
    assert set(due) == {"p=1", "p=2", "p=3"}
    assert [candidate.entity.partition for candidate in due_in_database(site, "default")] == due


def test_what_is_never_compacted_is_refused_by_name(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse, transactional="false")
    with pytest.raises(Refused, match=r"default\.t"):
        due_in_table(site, table)


def test_a_directory_that_is_gone_is_no_calm_one(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    insert(site, table, [1])
    Path(table.location).rename(warehouse / "elsewhere")
    with pytest.raises(CompactorError, match="/t"):
        due_in_table(site, table)
    assert due_in_database(site, "default") == []


def test_it_is_told_in_plain_values(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse)
    for value in (1, 2):
        insert(site, table, [value])
    (one,) = due_in_table(site, table)
    assert one.to_json() | {"because": ""} == {
        "table": "default.t",
        "partition": None,
        "type": "major",
        "because": "",
    }
    assert one.entity == Entity(database="default", table="t")
