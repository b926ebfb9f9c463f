from __future__ import annotations

import pytest

from compactor.base.errors import NotFound, Refused
from compactor.metastore.catalog.embedded import EmbeddedCatalog, NewTable
from compactor.metastore.catalog.read import Catalog
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t

INT, STRING = Column(name="a", type="int"), Column(name="s", type="string")
KEYS = (Column(name="d", type="string"), Column(name="n", type="int"))


@pytest.fixture
def embedded(metastore: Metastore) -> EmbeddedCatalog:
    metastore.embedded_catalog.create_database("default", "file:/w")
    return metastore.embedded_catalog


@pytest.fixture
def catalog(metastore: Metastore, embedded: EmbeddedCatalog) -> Catalog:
    return metastore.catalog


@pytest.fixture
def partitioned(embedded: EmbeddedCatalog) -> Table:
    return embedded.create_table(NewTable("default", "p", "file:///w/p/", [INT], partition_keys=KEYS))


def test_a_table_comes_back_as_made(catalog: Catalog, embedded: EmbeddedCatalog) -> None:
    made = embedded.create_table(
        NewTable(
            "DEFAULT",
            "T",
            "file:/w/t",
            [INT, STRING],
            partition_keys=KEYS,
            parameters={"transactional": "true"},
            owner="me",
            buckets=2,
            bucket_columns=["a"],
            sort_columns=["s"],
        )
    )
    assert catalog.table("default", "t") == made
    assert (made.database, made.name, made.location, made.owner) == ("default", "t", "file:/w/t", "me")
    assert (made.columns, made.partition_keys) == ((INT, STRING), KEYS)
    assert (made.buckets, made.bucket_columns, made.sort_columns) == (2, ("a",), ("s",))
    assert made.parameters == {"transactional": "true"}
    assert made.input_format is not None
    assert made.input_format.endswith("OrcInputFormat")


def test_names_that_exist_are_refused(catalog: Catalog, embedded: EmbeddedCatalog) -> None:
    embedded.create_table(NewTable("default", "t", "/t", [INT]))
    with pytest.raises(Refused, match=r"default\.t"):
        embedded.create_table(NewTable("default", "t", "/t", [INT]))
    with pytest.raises(Refused, match="default"):
        embedded.create_database("default", "/")
    with pytest.raises(NotFound, match="none"):
        embedded.create_table(NewTable("none", "t", "/t", [INT]))
    with pytest.raises(NotFound, match=r"default\.x"):
        catalog.table("default", "x")


def test_partitions(catalog: Catalog, embedded: EmbeddedCatalog, partitioned: Table) -> None:
    odd = embedded.add_partition(partitioned, ["a b=c/d%", "3"])
    plain = embedded.add_partition(partitioned, ["x", "1"], "hdfs://nn/elsewhere")
    assert odd.name == "d=a b%3Dc%2Fd%25/n=3"
    assert odd.location == "file:///w/p/d=a b%3Dc%2Fd%25/n=3"
    assert (plain.location, plain.values) == ("hdfs://nn/elsewhere", ("x", "1"))
    assert catalog.partitions(partitioned) == [odd, plain]
    assert catalog.partition(partitioned, odd.name) == odd
    with pytest.raises(Refused, match="exists"):
        embedded.add_partition(partitioned, ["x", "1"])
    with pytest.raises(Refused, match="2 partition keys"):
        embedded.add_partition(partitioned, ["x"])
    with pytest.raises(NotFound, match="d=y"):
        catalog.partition(partitioned, "d=y/n=1")


def test_properties(catalog: Catalog, embedded: EmbeddedCatalog) -> None:
    made = embedded.create_table(NewTable("default", "t", "/t", [INT]))
    assert embedded.set_table_parameter(made, "no_cleanup", "true").no_cleanup
    assert not embedded.set_table_parameter(made, "no_cleanup", None).no_cleanup
    embedded.set_database_parameter("default", "no_auto_compaction", "true")
    assert catalog.table("default", "t").no_auto_compaction
    assert catalog.databases()["default"] == {"no_auto_compaction": "true"}
    with pytest.raises(NotFound, match="none"):
        embedded.set_database_parameter("none", "a", "b")


def test_what_is_changed_together_is_there_or_not_at_all(catalog: Catalog, embedded: EmbeddedCatalog) -> None:
    made = embedded.create_table(NewTable("default", "p", "/p", [INT], partition_keys=KEYS))
    for number in "12":
        embedded.add_partition(made, ["x", number])
    with pytest.raises(NotFound):
        embedded.drop_partitions(made, ["d=x/n=1", "d=x/n=3"])
    assert len(catalog.partitions(made)) == 2
    embedded.drop_partitions(made, ["d=x/n=1", "d=x/n=2"])
    assert catalog.partitions(made) == []
    changed = embedded.set_table_parameters(made, {"a": "1", "b": "2"})
    assert changed.parameters.items() >= {"a": "1", "b": "2"}.items()
    embedded.drop_table(made)
    with pytest.raises(NotFound, match=r"default\.p was dropped meanwhile; no property was set"):
        embedded.set_table_parameters(made, {"a": "2"})


def test_dropping_leaves_no_row(metastore: Metastore, catalog: Catalog, embedded: EmbeddedCatalog) -> None:
    def left() -> dict[str, int]:
        counted = [name for name in t.metadata.tables if name != "SEQUENCE_TABLE"]
        with metastore.database.read() as conn:
            return {name: conn.exec_driver_sql(f'SELECT COUNT(*) FROM "{name}"').scalar_one() for name in counted}

    before = left()
    made = embedded.create_table(
        NewTable(
            "default", "p", "/p", [INT], partition_keys=KEYS, parameters={"a": "b"}, bucket_columns=["a"], buckets=1
        )
    )
    for number in "12":
        embedded.add_partition(made, ["x", number])
    embedded.drop_partition(made, "d=x/n=1")
    assert [part.values for part in catalog.partitions(made)] == [("x", "2")]
    embedded.drop_table(made)
    assert left() == before
    assert embedded.create_table(NewTable("default", "p", "/p", [INT])).id != made.id
