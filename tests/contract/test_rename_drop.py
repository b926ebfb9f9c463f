"""Dropping or renaming a table affects its location besides its records, and is done as a whole or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select

from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.dependents import DependentRows
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t

COLUMNS = [Column(name="a", type="int")]


@pytest.fixture
def table(metastore: Metastore) -> Table:
    made = metastore.embedded_catalog.create_table(
        NewTable("default", "tr", "/w/tr", COLUMNS, partition_keys=[Column(name="p", type="string")])
    )
    metastore.embedded_catalog.add_partition(made, ["x"])
    metastore.embedded_catalog.add_partition(made, ["far"], location="/far")
    return made


def test_a_table_that_is_moved_takes_its_partitions_along(metastore: Metastore, table: Table) -> None:
    """Hive's RENAME moves a managed table's directory; a partition somewhere else stays where it is."""
    made = metastore.embedded_catalog.rename_table(table, "moved", location="/w/moved")
    assert (made.id, str(made), made.location) == (table.id, "default.moved", "/w/moved")
    found = {p.name: p.location for p in metastore.catalog.partitions(made)}
    assert found == {"p=x": "/w/moved/p=x", "p=far": "/far"}


@pytest.mark.parametrize("what", ["drop", "rename"])
def test_all_of_it_or_nothing(what: str, metastore: Metastore, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hive's ``TestMetaStoreAcidCleanup``: where its records cannot be changed, a table is not dropped either."""
    [txn] = metastore.transactions.open("u", "h")
    write_id = metastore.write_ids.allocate(txn, "default", "tr")
    metastore.write_ids.add_component(txn, Entity(database="default", table="tr", partition="p=x"), "i", write_id)
    methods = {"drop": "forget", "rename": "rename_table"}
    original = getattr(DependentRows, methods[what])

    def fails(*arguments: Any) -> None:
        original(*arguments)
        raise RuntimeError("the cleanup failed")

    monkeypatch.setattr(DependentRows, methods[what], fails)
    acts = {
        "drop": lambda: metastore.embedded_catalog.drop_table(table),
        "rename": lambda: metastore.embedded_catalog.rename_table(table, "tu", location="/w/tu"),
    }
    with pytest.raises(RuntimeError, match="the cleanup failed"):
        acts[what]()
    assert metastore.catalog.table("default", "tr") == table
    assert len(metastore.catalog.partitions(table)) == 2
    with metastore.database.read() as conn:
        assert conn.execute(select(t.TXN_COMPONENTS.c.TC_TABLE)).scalars().all() == ["tr"]
        assert conn.execute(select(t.NEXT_WRITE_ID.c.NWI_NEXT)).scalars().all() == [2]


def test_a_database_that_cannot_be_dropped_whole_stays(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    metastore.embedded_catalog.create_database("doomed", "/d", {"k": "v"})

    def fails(*arguments: Any) -> None:
        raise RuntimeError("the cleanup failed")

    monkeypatch.setattr(DependentRows, "forget_database", fails)
    with pytest.raises(RuntimeError, match="the cleanup failed"):
        metastore.embedded_catalog.drop_database("doomed")
    assert metastore.catalog.databases()["doomed"] == {"k": "v"}
