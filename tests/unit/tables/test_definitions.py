from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import LockNotGranted, NotConforming, NotFound, NotSupported, Refused
from compactor.site.site import Site
from compactor.tables.definitions import must_be_free
from compactor.tables.store import Store
from tests.support.tables import with_settings

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("day", pa.date32())])


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    made = Store(with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="1s"))
    made.create_database("sales", str(warehouse / "sales.db"))
    return made


def test_a_table_is_created_written_and_read(store: Store, warehouse: Path) -> None:
    made = store.create_table(
        "sales.Orders",
        SCHEMA,
        partitioned_by=["Day"],
        clustered_by=(["id"], 4),
        properties={"orc.compress": "ZSTD"},
    )
    assert made.name == "sales.orders"
    assert made.partition_keys == ("day",)
    assert dict(made.properties) == {
        "transactional": "true",
        "transactional_properties": "default",
        "bucketing_version": "2",
        "orc.compress": "ZSTD",
    }
    rows = pa.table({"id": [1, 2], "name": ["a", None], "day": pa.array([1, 1], pa.int32()).cast(pa.date32())})
    made.append(rows)
    assert store.load_table("sales.orders").scan().to_arrow().sort_by("id").equals(rows.cast(made.schema))
    assert len(list((warehouse / "sales.db/orders/day=1970-01-02").glob("delta_*/bucket_*"))) > 0


def test_hives_types_may_be_given(store: Store, warehouse: Path) -> None:
    made = store.create_table("sales.t", {"Code": "varchar(3)", "n": "decimal(5,1)"}, location=str(warehouse / "other"))
    made.append(pa.table({"code": ["abcdef"], "n": [1]}))
    assert made.scan().to_arrow().to_pylist() == [{"code": "abc", "n": 1}]
    assert os.listdir(warehouse / "other") == ["delta_0000001_0000001_0000"]


def test_what_no_table_can_be_is_refused_by_name(store: Store, warehouse: Path) -> None:
    (warehouse / "full").mkdir()
    (warehouse / "full/file").touch()
    store.create_table("sales.t", SCHEMA)
    for wrong, because in (
        (lambda: store.create_table("sales.t", SCHEMA, location=str(warehouse / "x")), "sales.t exists already"),
        (lambda: store.create_table("sales.u", SCHEMA, location=str(warehouse / "full")), "holds file"),
        (lambda: store.create_table("sales.u", SCHEMA, location=str(warehouse / "sales.db/t/in")), "was not created"),
        (lambda: store.create_table("sales.a-b", SCHEMA), "expected a name"),
        (
            lambda: store.create_table("sales.u", SCHEMA, partitioned_by=["id", "name", "day"]),
            "at least one other column",
        ),
        (lambda: store.create_table("sales.u", SCHEMA, clustered_by=(["id"], 0)), "1 to 4096 buckets"),
        (lambda: store.create_table("sales.u", SCHEMA, location="here/u"), "is relative"),
        (lambda: store.create_database("other", "other.db"), "is relative"),
        (lambda: store.create_table("nothing", SCHEMA), "expected <database>"),
    ):
        with pytest.raises(Refused, match=because):
            wrong()
    for unknown in ("nowhere.t", "sales.u"):
        with pytest.raises(NotFound):
            store.create_table(unknown, SCHEMA, partitioned_by=["x"])
    with pytest.raises(NotConforming, match="'ID' is defined twice"):
        store.create_table("sales.u", {"id": "int", "ID": "int"})
    with pytest.raises(NotConforming, match="the name of Hive's ROW__ID"):
        store.create_table("sales.u", {"id": "int", "ROW__ID": "int"})
    with pytest.raises(NotConforming, match="which is not a Hive type"):
        store.create_table("sales.u", {"id": "integer8"})
    with pytest.raises(NotConforming, match=r"not a Hive type.*decimal"):
        store.create_table("sales.u", {"id": "array<decimal(39,2)>"})
    with pytest.raises(NotSupported, match="local time zone"):
        store.create_table("sales.u", {"id": "timestamp with local time zone"})
    with pytest.raises(NotSupported, match="only full ACID"):
        store.create_table("sales.u", SCHEMA, properties={"transactional_properties": "insert_only"})
    assert store.site.metastore.catalog.names() == [("sales", "t")]


def test_a_table_is_dropped_and_its_files_stay_unless_they_are_purged(store: Store, warehouse: Path) -> None:
    rows = pa.table({"id": [1], "name": ["a"]})
    for purge in (False, True):
        store.create_table("sales.t", SCHEMA, location=str(warehouse / str(purge))).append(rows)
        store.drop_table("sales.t", purge=purge)
        assert (warehouse / str(purge)).exists() is not purge
        with pytest.raises(NotFound):
            store.load_table("sales.t")


def test_a_table_that_somebody_reads_is_not_dropped(store: Store) -> None:
    made = store.create_table("sales.t", SCHEMA)
    with store.transaction() as txn:
        txn.load_table("sales.t").scan().to_arrow()
        with pytest.raises(LockNotGranted):
            store.drop_table("sales.t")
    assert made.scan().count() == 0


def test_a_directory_is_free_of_what_the_dead_have_staged(store: Store, warehouse: Path) -> None:
    """PROTOCOL 14.24: below any directory, but not in that of a table, where it is the cleaner's."""
    site = store.site
    with store.transaction() as txn:
        dead = f".compactor_w{txn.id}_ab"
    place = warehouse / "sales.db/new/k=1" / dead
    place.mkdir(parents=True)
    (place / "file").touch()
    store.create_table("sales.new", {"a": "int"})
    assert not place.exists()
    (warehouse / "sales.db/new" / dead).mkdir()
    (warehouse / "sales.db/new" / dead / "file").touch()
    with pytest.raises(Refused, match=f"holds {dead}"):
        must_be_free(site, "sales.other", f"{warehouse}/sales.db/new")
    assert (warehouse / "sales.db/new" / dead / "file").exists()
    unknown = warehouse / "sales.db/far" / ".compactor_w999_ab"
    unknown.mkdir(parents=True)
    with pytest.raises(Refused, match=r"somebody writes in .*compactor_w999_ab"):
        store.create_table("sales.far", {"a": "int"})
    assert unknown.exists()
