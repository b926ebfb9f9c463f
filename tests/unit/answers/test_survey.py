from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from compactor.acid.listing import Listing
from compactor.answers.overview import tables_page
from compactor.answers.show_compactions import CompactionWords
from compactor.answers.survey import DirectoryContent, Survey, find_tables, survey_tables
from compactor.base.errors import BadSetting, NotFound
from compactor.compaction.pool_policy import PoolPolicy
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.embedded import NewTable
from compactor.site.site import Site
from compactor.storage.protocol import Storage
from demo.fixtures import register_fixture
from tests.support.expected import step
from tests.support.passes import clean_all, compact
from tests.support.tables import insert, make_table, with_settings


class Counting:
    """A storage that counts how often each directory is listed."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.listed: Counter[str] = Counter()

    def listing(self, path: str) -> Listing:
        self.listed[path] += 1
        return self._storage.listing(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)


def test_the_table_whose_readers_merge_most_deltas_comes_first(deployment: Site, warehouse: Path) -> None:
    for name in ("hive-4.1/f2_part/s1_dml", "hive-4.1/f1_basic/s9_major_cleaned", "hive-4.1/q1_query/s4_major"):
        register_fixture(deployment.metastore, step(name), warehouse)
    rows = survey_tables(deployment)
    assert rows[0].table == "default.f2_part"
    assert [row.most_deltas for row in rows] == sorted((row.most_deltas for row in rows), reverse=True)
    assert [row.table for row in survey_tables(deployment, 1)] == ["default.f2_part"]


def test_a_table_says_when_it_was_last_compacted(deployment: Site, warehouse: Path) -> None:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table = make_table(site, warehouse)
    for value in (1, 2):
        insert(site, table, [value])
    (before,) = survey_tables(site)
    compact(site)
    (committed,) = survey_tables(site)
    clean_all(site)
    (cleaned,) = survey_tables(site)
    assert before.to_json()["last_compacted"] is None
    assert 0 < (committed.last_compacted or 0) <= (cleaned.last_compacted or 0) <= site.metastore.now_ms()


def test_tables_by_the_words_of_their_compactions(deployment: Site, warehouse: Path) -> None:
    """`show tables` shares its filters with `show compactions` and `show history`."""
    for name in ("hive-4.1/f2_part/s1_dml", "hive-4.1/f1_basic/s9_major_cleaned"):
        register_fixture(deployment.metastore, step(name), warehouse)
    site = with_settings(deployment, hive_compactor_delta_num_threshold="0")
    basic = site.metastore.catalog.table("default", "f1_basic")
    site.metastore.embedded_catalog.set_table_parameter(basic, "hive.compactor.worker.pool", "etl")
    site = replace(site, pools={"etl": PoolPolicy(name="etl")})
    every = survey_tables(site)
    partition = site.metastore.catalog.partitions(site.metastore.catalog.table("default", "f2_part"))[0].name

    def shown(**words: str) -> list[str]:
        return [row.table for row in survey_tables(site, filter=find_tables(site, CompactionWords(**words)))]

    assert shown() == [row.table for row in every] == ["default.f2_part", "default.f1_basic"]
    assert (shown(pool="etl"), shown(pool="default")) == (["default.f1_basic"], ["default.f2_part"])
    for type in ("major", "minor", "rebalance"):
        assert shown(type=type) == [row.table for row in every if type in dict(row.outcomes)]
    assert "default.f2_part" in shown(type="major") + shown(type="minor")
    (row,) = survey_tables(site, filter=find_tables(site, CompactionWords(name="f2_part", partition=partition)))
    assert (row.table, row.partitions) == ("default.f2_part", 1)
    for words, reason in (({"pool": "etll"}, "did you mean etl"), ({"name": "f3"}, "f3 is not in the metastore")):
        with pytest.raises(NotFound, match=reason):
            shown(**words)
    with pytest.raises(BadSetting, match="did you mean major"):
        shown(type="mayor")


def test_each_directory_is_listed_once(deployment: Site, warehouse: Path) -> None:
    register_fixture(deployment.metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    counting = Counting(deployment.storage)
    (row,) = survey_tables(replace(deployment, storage=cast(Storage, counting)))
    assert row.partitions == 6
    assert set(counting.listed.values()) == {1}
    assert len(counting.listed) == 6


def test_counts_are_those_of_the_files(deployment: Site, warehouse: Path) -> None:
    table = register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s10_dml_over_base"), warehouse)
    root = warehouse / "f1_basic"
    files = [p for p in root.rglob("*") if p.is_file() and not p.name.startswith("_")]
    (row,) = survey_tables(deployment)
    assert row.table == str(table)
    assert row.content.directories == sum(p.is_dir() for p in root.iterdir())
    assert row.content.files == len(files)
    assert row.content.bytes == sum(p.stat().st_size for p in files)
    assert row.decision == "major"
    assert row.to_json()["decisions"] == {"major": 1}


def test_what_waits_for_the_cleaner_is_not_read_and_makes_no_table_urgent(deployment: Site, warehouse: Path) -> None:
    """A finished table with many obsolete directories ranks behind one that readers have to merge; as on the page."""
    site = with_settings(deployment, hive_compactor_delta_num_threshold="9", compactor_mode="observe")
    done, due = (make_table(site, warehouse, name) for name in ("done", "due"))
    for table, inserts in ((done, 6), (due, 2)):
        for value in range(inserts):
            insert(site, table, [value])
    compact(with_settings(deployment), table="default.done")
    initiate(site)
    rows = {row.table: row for row in survey_tables(site)}
    assert list(rows) == ["default.due", "default.done"]
    assert rows["default.done"].content == DirectoryContent(
        directories=1, deltas=0, files=2, bytes=rows["default.done"].content.bytes, obsolete=6
    )
    assert site.state is not None
    page = tables_page(site, find="", outcome="", order="health", descending=False, limit=9, offset=0).rows
    assert [row["table"] for row in page] == list(rows)
    assert [row["figures"]["health"] for row in page] == [row.health for row in rows.values()]  # type: ignore[index]
    assert [table.table for table in site.state.conditions.worst_tables(site.name, 9)] == ["due", "done"]


def test_a_missing_partition_is_reported_with_the_others(deployment: Site, warehouse: Path) -> None:
    table = register_fixture(deployment.metastore, step("hive-4.1/f2_part/s1_dml"), warehouse)
    shutil.rmtree(warehouse / "f2_part" / "p=y")
    (row,) = survey_tables(deployment)
    assert dict(row.outcomes) == {"error": 1, "notneeded": 5}
    assert row.decision == "error 1, notneeded 5"
    assert "p=y" in row.because
    outcomes = {s.entity.partition: s.considered.outcome for s in Survey(deployment).partitions(table)}
    assert outcomes["p=y/q=2"] == "error"
    assert outcomes["p=x/q=1"] == "notneeded"


def test_tables_that_are_not_transactional_are_left_out(deployment: Site, warehouse: Path) -> None:
    deployment.metastore.embedded_catalog.create_database("d", str(warehouse))
    deployment.metastore.embedded_catalog.create_table(NewTable("d", "plain", str(warehouse / "plain"), []))
    assert survey_tables(deployment) == []


def test_a_survey_cannot_change_storage(deployment: Site) -> None:
    storage = Survey(deployment)._site.storage
    with pytest.raises(AttributeError, match="only reads"):
        storage.remove("/anything")
