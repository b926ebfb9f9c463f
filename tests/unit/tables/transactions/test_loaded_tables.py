"""PROTOCOL 14.25: a program goes by the definition of a table that it has loaded, after somebody has changed that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import NotFound, Refused
from compactor.base.steps import TransactionStep
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.store import Store
from compactor.tables.table import Table
from tests.support.interleaving import interleaving

ROWS = pa.table({"a": pa.array([1, 2], pa.int32()), "b": pa.array([10, 20], pa.int32())})
SCHEMA = {"a": "int", "b": "int"}
WRITES: dict[str, Callable[[Table], object]] = {
    "append": lambda table: table.append(ROWS),
    "overwrite": lambda table: table.overwrite(ROWS),
    "update": lambda table: table.update({"b": 1}, "a = 1"),
    "delete": lambda table: table.delete("a = 1"),
    "upsert": lambda table: table.upsert(ROWS, ["a"]),
    "upsert of no rows": lambda table: table.upsert(ROWS.slice(0, 0), ["a"]),
    "mutate": lambda table: _mutate(table),
    "stream": lambda table: _stream(table),
}


OF_ROWS = ("scan", "filter", "count", "reader", "files")
READS: dict[str, Callable[[Table], object]] = {
    "scan": lambda table: table.scan().to_arrow(),
    "filter": lambda table: table.scan("a = 1", selected_fields=["b"]).to_arrow(),
    "count": lambda table: table.scan().count(),
    "reader": lambda table: table.scan().to_arrow_batch_reader(),
    "files": lambda table: table.scan().plan_files(),
    "partitions": lambda table: table.partitions,
}
ANOTHER = (
    r"default\.t: was dropped since it was loaded, and another table \(id \d+, was \d+\) has its name; load it again"
)


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
    with pytest.raises(Refused, match=r"default\.t: its columns, buckets or location were altered since it was loaded"):
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
    with pytest.raises(NotFound, match=ANOTHER):
        write(table)
    assert contents(store) == before


@pytest.mark.parametrize("write", [WRITES[name] for name in ("append", "delete", "upsert", "stream")])
def test_a_table_whose_name_has_other_numbers_is_not_written(
    store: Store, warehouse: Path, write: Callable[[Table], object]
) -> None:
    """Its files show write IDs that were never given under the name as it is now."""
    table = store.load_table("default.t")
    run_sql(store, "ALTER TABLE default.t RENAME TO default.u")
    with pytest.raises(NotFound, match=r"was renamed to default\.u since it was loaded"):
        write(table)
    store.create_table("default.t", SCHEMA, location=str(warehouse / "elsewhere"))
    with pytest.raises(NotFound, match=r"was renamed to default\.u .*, and another table"):
        write(table)


def test_it_has_another_number_of_buckets(deployment: Site, warehouse: Path) -> None:
    store = Store(deployment)
    store.create_database("default", str(warehouse))
    table = store.create_table("default.t", SCHEMA, clustered_by=(["a"], 2))
    store.drop_table("default.t", purge=True)
    store.create_table("default.t", SCHEMA, clustered_by=(["a"], 3))
    with pytest.raises(NotFound, match=ANOTHER):
        table.append(ROWS)
    assert contents(store) == []


def test_a_table_that_was_dropped_and_created_again_is_not_read(store: Store) -> None:
    table = store.load_table("default.t")
    store.drop_table("default.t", purge=True)
    store.create_table("default.t", SCHEMA, partitioned_by=table.partition_keys).append(ROWS)
    for read in READS.values():
        with pytest.raises(NotFound, match=ANOTHER):
            read(table)
        read(store.load_table("default.t"))


def test_a_table_that_was_renamed_is_not_read_under_its_old_name(store: Store, warehouse: Path) -> None:
    table = store.load_table("default.t")
    run_sql(store, "ALTER TABLE default.t RENAME TO default.u")
    for read in READS.values():
        with pytest.raises(NotFound, match=r"default\.t: was renamed to default\.u since it was loaded; load it again"):
            read(table)
    store.create_table("default.t", SCHEMA, location=str(warehouse / "elsewhere"))
    for read in READS.values():
        with pytest.raises(
            NotFound, match=r"was renamed to default\.u .*, and another table \(id 2, was 1\) has its name"
        ):
            read(table)


def test_a_table_that_was_dropped_is_not_found(store: Store) -> None:
    table = store.load_table("default.t")
    store.drop_table("default.t")
    for read in READS.values():
        with pytest.raises(NotFound, match=r"default\.t: was dropped since it was loaded; load it again"):
            read(table)


def test_a_table_with_further_columns_is_not_read_by_its_old_ones(store: Store) -> None:
    table = store.load_table("default.t")
    run_sql(store, "ALTER TABLE default.t ADD COLUMNS (c int)")
    for name, read in READS.items():
        if name in OF_ROWS:
            with pytest.raises(Refused, match=r"since it was loaded \(its rows are struct<.*c:int>, were struct<"):
                read(table)


def test_properties_are_no_part_of_what_was_loaded(store: Store) -> None:
    table = store.load_table("default.t")
    run_sql(
        store, "ALTER TABLE default.t SET TBLPROPERTIES ('compactorthreshold.hive.compactor.delta.num.threshold'='3')"
    )
    assert table.scan().count() == 2


@pytest.mark.parametrize("key", ["bucketing_version", "compactor.orc.default.timezone"])
def test_properties_by_which_rows_are_read_and_written_are(store: Store, key: str) -> None:
    """PROTOCOL 14.25: what was loaded before would put rows into other buckets, or show other times."""
    table = store.load_table("default.t")
    catalog = store.site.metastore
    catalog.embedded_catalog.set_table_parameters(catalog.catalog.table("default", "t"), {key: "1"})
    for act in (WRITES["append"], WRITES["stream"], READS["scan"]):
        with pytest.raises(Refused, match=rf"{key}.* was altered since it was loaded"):
            act(table)


@pytest.mark.parametrize("write", [WRITES[name] for name in WRITES if "no rows" not in name])
def test_a_write_that_waited_asks_the_table_for_its_mode(store: Store, write: Callable[[Table], object]) -> None:
    table = store.load_table("default.t")
    run_sql(store, "ALTER TABLE default.t SET TBLPROPERTIES ('compactor.mode'='observe')")
    with pytest.raises(Refused, match="mode is observe"):
        write(table)


def test_a_transaction_reads_no_table_that_took_the_name_of_one_it_has_loaded(store: Store) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        run_sql(store, "DROP TABLE default.t PURGE; CREATE TABLE default.t (b int, a int)")
        with pytest.raises(NotFound, match=ANOTHER):
            table.scan(selected_fields=["a"]).to_arrow()
        assert txn.load_table("default.t").scan().count() == 0


@pytest.mark.parametrize(
    ("select", "ddl", "error"),
    [
        ("*", "ALTER TABLE default.t RENAME TO default.u", "was renamed to default.u"),
        ("count(*)", "DROP TABLE default.t PURGE", "was dropped since"),
        ("b", "DROP TABLE default.t PURGE; CREATE TABLE", r"was dropped since.* another table"),
        ("*", "ALTER TABLE default.t ADD COLUMNS (c int)", "were altered since"),
    ],
)
def test_a_select_that_waited_behind_ddl_shows_no_rows_of_it(store: Store, select: str, ddl: str, error: str) -> None:
    first, _, second = ddl.partition("; ")
    with interleaving() as stage:
        altering = stage.begin(lambda: run_sql(store, first))
        altering.run_to(TransactionStep.LOCKED)
        selecting = stage.begin(lambda: run_sql(store, f"SELECT {select} FROM default.t"))
        selecting.run_to(TransactionStep.LOCK_AWAITED)
        altering.end()
        if second:
            create = store.site.metastore.embedded_catalog.create_table
            create(NewTable("default", "t", "/elsewhere", [Column(name="b", type="int")]))
        with pytest.raises(Refused, match=error):
            selecting.end()


def run_sql(store: Store, text: str) -> list[dict[str, object]]:
    return [dict(row) for answer in run(store.site, check_text(text)) for row in answer.rows]
