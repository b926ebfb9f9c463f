"""Programs that write rows into tables in HDFS and in object stores (PROTOCOL 14)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.names import parse_staging
from compactor.base.errors import StorageError
from compactor.site.site import Site
from compactor.storage.stores import Stores
from compactor.tables.store import Store
from demo.snapshot_reader import read_snapshot
from tests.storage.conftest import Place
from tests.support.passes import compact
from tests.support.tables import entity_of, with_settings


class Watched(Stores):
    """Calls ``seen`` with the target of each rename, before it and after it."""

    def __init__(self, stores: Stores, seen: Any) -> None:
        self.__dict__.update(stores.__dict__)
        self.seen = seen

    def rename(self, source: str, target: str, *, durable: bool = True) -> None:
        self.seen(target)
        super().rename(source, target, durable=durable)
        self.seen(target)

    def rename_each(self, path: str, names: Mapping[str, str]) -> Iterator[str]:
        for old, new in names.items():
            self.seen(f"{path}/{new}")
            for renamed in super().rename_each(path, {old: new}):
                self.seen(f"{path}/{new}")
                yield renamed


@pytest.fixture
def store(deployment: Site, place: Place) -> Store:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    made = Store(replace(site, storage=place.stores))
    made.create_database("default", place.location)
    made.create_table("default.t", {"a": "int", "b": "string"})
    made.create_table("default.p", {"a": "int", "b": "string", "p": "int"}, partitioned_by=["p"])
    return made


def scan_rows(store: Store, name: str = "t") -> dict[int, str | None]:
    found = store.load_table(f"default.{name}").scan(selected_fields=["a", "b"]).to_arrow().to_pylist()
    return {row["a"]: row["b"] for row in found}


def staged(store: Store, location: str) -> list[str]:
    return [name for name in store.site.storage.children(store.site.storage.resolve(location)) if parse_staging(name)]


def test_rows_are_written_changed_and_compacted(store: Store, place: Place) -> None:
    table = store.load_table("default.t")
    with store.transaction() as txn:
        own = txn.load_table("default.t")
        own.append(pa.table({"a": [1, 2], "b": ["x", "y"]}))
        own.append(pa.table({"a": [3, 4], "b": ["x", "y"]}))
        assert own.update({"b": "'z'"}, where="a = 2") == 1, "a transaction changes what it has staged"
        assert scan_rows(store) == {}
    assert table.delete("a = 1") == 1
    done = table.upsert(pa.table({"a": [3, 5], "b": ["w", "v"]}), join_cols=["a"])
    assert (done.updated, done.inserted) == (1, 1)
    wanted = {2: "z", 3: "w", 4: "y", 5: "v"}
    assert scan_rows(store) == wanted
    assert staged(store, f"{place.location}/t") == []
    compact(store.site)
    assert scan_rows(store) == wanted
    table.overwrite(pa.table({"a": [9]}))
    assert scan_rows(store) == {9: None}


def test_new_partitions_are_made_and_written_into(store: Store, place: Place) -> None:
    table = store.load_table("default.p")
    table.append(pa.table({"a": [1, 2], "b": ["x", "y"], "p": [1, 2]}))
    table.append(pa.table({"a": [3]}), partition={"p": 2})
    assert table.update({"b": "'q'"}, where="p = 2") == 2
    table.overwrite(pa.table({"a": [7]}), partition={"p": 1})
    assert scan_rows(store, "p") == {7: None, 2: "q", 3: "q"}
    assert table.partitions == ("p=1", "p=2")
    assert staged(store, f"{place.location}/p/p=2") == []


def test_nobody_sees_half_of_what_is_being_named(store: Store, place: Place) -> None:
    """Where a directory is named file by file, too: its write ID is open until all have their names."""
    store.load_table("default.t").append(pa.table({"a": [1], "b": ["x"]}))
    found: list[list[int]] = []

    def look(target: str) -> None:
        if "/.compactor" not in target:
            with ThreadPoolExecutor(1) as reader:
                found.append(reader.submit(_read, store.site).result())

    watched = Store(replace(store.site, storage=Watched(place.stores, look)))
    with watched.transaction() as txn:
        for number in (2, 3):
            txn.load_table("default.t").append(pa.table({"a": [number], "b": ["x"]}))
        txn.load_table("default.t").delete("a = 1")
    assert found == [[1]] * 6
    assert sorted(scan_rows(store)) == [2, 3]


def _read(site: Site) -> list[int]:
    """Returns what a reader of the files sees under the snapshot of this moment."""
    table = site.metastore.catalog.table("default", "t")
    target, txns = site.target(entity_of(table)), site.metastore.transactions.snapshot()
    write_ids = site.write_ids(table, txns)
    directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
    batches = read_snapshot(target.location, directory, write_ids, target.row_type, site.storage)
    return sorted(row["a"] for batch in batches for row in batch.to_pylist())


def test_a_store_that_fails_while_names_are_given_takes_the_transaction_back(store: Store, place: Place) -> None:
    store.load_table("default.t").append(pa.table({"a": [1], "b": ["x"]}))
    named: list[str] = []

    def fail(target: str) -> None:
        if "/.compactor" not in target:
            named.append(target)
            if len(named) == 3:
                raise StorageError(f"{target}: a test says no")

    failing = Store(replace(store.site, storage=Watched(place.stores, fail)))
    with pytest.raises(StorageError, match="a test says no"):
        _append_twice(failing)
    assert scan_rows(store) == {1: "x"}
    assert staged(store, f"{place.location}/t") == []
    assert len(store.site.metastore.transactions.aborted()) == 1
    store.load_table("default.t").append(pa.table({"a": [2], "b": ["x"]}))
    compact(store.site)
    assert scan_rows(store) == {1: "x", 2: "x"}


def _append_twice(store: Store) -> None:
    with store.transaction() as txn:
        for number in (2, 3):
            txn.load_table("default.t").append(pa.table({"a": [number], "b": ["x"]}))
