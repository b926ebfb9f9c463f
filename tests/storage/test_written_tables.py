"""Programs that write and read tables in HDFS and in object stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.errors import WriteConflict
from compactor.metastore.catalog.values import Table
from compactor.service.site import Site
from compactor.tables.store import Store
from compactor.tables.writing.upsert import Upserted
from tests.storage.conftest import Place
from tests.support.moved_tables import moved
from tests.support.passes import clean_all, compact
from tests.support.tables import entity_of, insert, make_table, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="300ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    made = make_table(site, warehouse)
    insert(site, made, range(4))
    return made


def rows(store: Store) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in store.load_table("default.t").scan().to_arrow().to_pylist())


def batch(*values: int) -> pa.Table:
    return pa.table({"a": list(values), "b": [f"row {value}" for value in values]})


def test_a_program_writes_what_everybody_reads(site: Site, table: Table, place: Place) -> None:
    store = Store(moved(site, table, place.stores, place.location))
    orders = store.load_table("default.t")
    assert orders.append(batch(10, 11)) == 2
    assert orders.delete("a = 1") == 1
    assert orders.update({"b": "'new'"}, "a = 10") == 1
    assert orders.upsert(batch(2, 12), ["a"]) == Upserted(updated=1, inserted=1)
    wanted = [(0, "row 0"), (2, "row 2"), (3, "row 3"), (10, "new"), (11, "row 11"), (12, "row 12")]
    assert rows(store) == wanted
    compact(store.site)
    clean_all(store.site)
    assert rows(store) == wanted
    with store.transaction() as txn:
        txn.load_table("default.t").overwrite(batch(7))
        assert rows(store) == wanted
    assert rows(store) == [(7, "row 7")]
    assert len(store.site.storage.children(store.site.target(entity_of(table)).location)) == 2


def test_a_transaction_that_fails_leaves_nothing(site: Site, table: Table, place: Place) -> None:
    store = Store(moved(site, table, place.stores, place.location))
    before = rows(store)
    location = store.site.target(entity_of(table)).location
    names = store.site.storage.children(location)

    def two_at_once() -> None:
        with store.transaction() as late:
            late.load_table("default.t").delete("a = 1")
            store.load_table("default.t").delete("a = 1")

    with pytest.raises(WriteConflict):
        two_at_once()
    assert rows(store) == [row for row in before if row[0] != 1]
    assert len(store.site.storage.children(location)) == len(names) + 1
