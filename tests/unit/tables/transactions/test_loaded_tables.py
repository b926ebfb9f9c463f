"""PROTOCOL 14.25: a program writes by the definition of a table that it has loaded, after somebody has changed that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.errors import Refused
from compactor.metastore.catalog.values import Column
from compactor.service.site import Site
from compactor.tables.store import Store
from compactor.tables.table import Table

ROWS = pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.array([10, 20], pa.int32())})
SCHEMA = {"a": "int", "b": "int"}
WRITES: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(ROWS),
    "overwrite": lambda table: table.overwrite(ROWS),
    "update": lambda table: table.update({"b": 1}, "a = 1"),
    "delete": lambda table: table.delete("a = 1"),
    "upsert": lambda table: table.upsert(ROWS, ["a"]),
    "mutate": lambda table: _mutate(table),
    "stream": lambda table: _stream(table),
}


def _mutate(table: Table) -> None:
    with table.mutate(key=["a"]) as changes:
        changes.delete(ROWS.select(["a"]))


def _stream(table: Table) -> None:
    with table.stream() as stream:
        try:
            stream.write(ROWS)
            stream.commit()
        finally:
            stream.discard()


@pytest.fixture(params=[(), ("a",)], ids=["one directory", "partitions"])
def store(deployment: Site, warehouse: Path, request: pytest.FixtureRequest) -> Store:
    made = Store(deployment)
    made.create_database("default", str(warehouse))
    made.create_table("default.t", SCHEMA, partitioned_by=request.param).append(ROWS)
    return made


def contents(store: Store) -> list[dict[str, object]]:
    return store.load_table("default.t").scan().to_arrow().sort_by("b").to_pylist()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_columns_were_added(store: Store, write: Callable[[Table], object]) -> None:
    table = store.load_table("default.t")
    catalog = store.site.metastore
    catalog.embedded_catalog.add_columns(catalog.catalog.table("default", "t"), [Column(name="c", type="int")])
    before = contents(store)
    with pytest.raises(Refused, match=r"default\.t: was altered or created anew since it was loaded; load it again"):
        write(table)
    assert contents(store) == before
    write(store.load_table("default.t"))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_it_was_dropped_and_created_with_other_columns(store: Store, write: Callable[[Table], object]) -> None:
    table = store.load_table("default.t")
    store.drop_table("default.t", purge=True)
    made = store.create_table("default.t", {"b": "int", "a": "int"})
    made.append(ROWS)
    before = contents(store)
    with pytest.raises(Refused, match="created anew since it was loaded"):
        write(table)
    assert contents(store) == before


def test_it_has_another_number_of_buckets(deployment: Site, warehouse: Path) -> None:
    store = Store(deployment)
    store.create_database("default", str(warehouse))
    table = store.create_table("default.t", SCHEMA, clustered_by=(["a"], 2))
    store.drop_table("default.t", purge=True)
    store.create_table("default.t", SCHEMA, clustered_by=(["a"], 3))
    with pytest.raises(Refused, match="created anew since it was loaded"):
        table.append(ROWS)
    assert contents(store) == []
