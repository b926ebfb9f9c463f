from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from sqlalchemy import event

from compactor.errors import NotFound, Refused
from compactor.metastore.catalog.read import Catalog, Column, Table
from compactor.metastore.schema import tables as t
from compactor.metastore.store import Metastore

INT, STRING = Column(name="a", type="int"), Column(name="s", type="string")
KEYS = (Column(name="d", type="string"), Column(name="n", type="int"))


@pytest.fixture
def catalog(metastore: Metastore) -> Catalog:
    if "default" not in metastore.catalog.databases():
        metastore.catalog.create_database("default", "file:/w")
    return metastore.catalog


def table(parameters: Mapping[str, str], database: Mapping[str, str] | None = None) -> Table:
    return Table(id=1, database="d", name="t", location="/t", parameters=parameters, database_parameters=database or {})


@pytest.mark.parametrize(
    ("parameters", "full", "insert_only"),
    [
        ({}, False, False),
        ({"transactional": "true"}, True, False),
        ({"TRANSACTIONAL": "TRUE", "transactional_properties": "default"}, True, False),
        ({"transactional": "true", "TRANSACTIONAL_PROPERTIES": "Insert_Only"}, False, True),
        ({"transactional": "false"}, False, False),
        ({"transactional_properties": "insert_only"}, False, False),
    ],
)
def test_what_kind_of_table(parameters: dict[str, str], full: bool, insert_only: bool) -> None:
    found = table(parameters)
    assert (found.is_full_acid, found.is_insert_only, found.is_transactional) == (
        full,
        insert_only,
        full or insert_only,
    )


@pytest.mark.parametrize(
    ("of_table", "of_database", "left_alone"),
    [
        ({}, {}, False),
        ({"NO_AUTO_COMPACTION": "TRUE"}, {}, True),
        ({"no_auto_compaction": "false"}, {"no_auto_compaction": "true"}, True),
        ({"no_auto_compaction": "true"}, {"NO_AUTO_COMPACTION": "false"}, False),
    ],
)
def test_the_databases_word_on_compaction_wins(
    of_table: dict[str, str], of_database: dict[str, str], left_alone: bool
) -> None:
    assert table(of_table, of_database).no_auto_compaction is left_alone


def test_the_databases_word_on_cleaning_wins() -> None:
    assert table({"no_cleanup": "true"}).no_cleanup
    assert not table({"no_cleanup": "true"}, {"no_cleanup": "false"}).no_cleanup


def test_a_table_comes_back_as_made(catalog: Catalog) -> None:
    made = catalog.create_table(
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
    assert catalog.table("default", "t") == made
    assert (made.database, made.name, made.location, made.owner) == ("default", "t", "file:/w/t", "me")
    assert (made.columns, made.partition_keys) == ((INT, STRING), KEYS)
    assert (made.buckets, made.bucket_columns, made.sort_columns) == (2, ("a",), ("s",))
    assert made.parameters == {"transactional": "true"}
    assert made.input_format is not None
    assert made.input_format.endswith("OrcInputFormat")


def test_names_that_exist_are_refused(catalog: Catalog) -> None:
    catalog.create_table("default", "t", "/t", [INT])
    with pytest.raises(Refused, match=r"default\.t"):
        catalog.create_table("default", "t", "/t", [INT])
    with pytest.raises(Refused, match="default"):
        catalog.create_database("default", "/")
    with pytest.raises(NotFound, match="none"):
        catalog.create_table("none", "t", "/t", [INT])
    with pytest.raises(NotFound, match=r"default\.x"):
        catalog.table("default", "x")


@pytest.fixture
def partitioned(catalog: Catalog) -> Table:
    return catalog.create_table("default", "p", "file:///w/p/", [INT], partition_keys=KEYS)


def test_partitions(catalog: Catalog, partitioned: Table) -> None:
    odd = catalog.add_partition(partitioned, ["a b=c/d%", "3"])
    plain = catalog.add_partition(partitioned, ["x", "1"], "hdfs://nn/elsewhere")
    assert odd.name == "d=a b%3Dc%2Fd%25/n=3"
    assert odd.location == "file:///w/p/d=a b%3Dc%2Fd%25/n=3"
    assert (plain.location, plain.values) == ("hdfs://nn/elsewhere", ("x", "1"))
    assert catalog.partitions(partitioned) == [odd, plain]
    assert catalog.partition(partitioned, odd.name) == odd
    with pytest.raises(Refused, match="exists"):
        catalog.add_partition(partitioned, ["x", "1"])
    with pytest.raises(Refused, match="2 partition keys"):
        catalog.add_partition(partitioned, ["x"])
    with pytest.raises(NotFound, match="d=y"):
        catalog.partition(partitioned, "d=y/n=1")


@pytest.mark.parametrize(
    "text",
    [
        "d=a b%3Dc%2Fd%25/n=3",
        "d=a b=c/d%,n=3",
        "D=a b=c/d% , N=3",
        "d=a b=c/d%/n=3",
        "d='a b=c/d%',n=3",
    ],
)
def test_a_partition_is_found_by_its_stored_name_or_plain_values(
    text: str, catalog: Catalog, partitioned: Table
) -> None:
    odd = catalog.add_partition(partitioned, ["a b=c/d%", "3"])
    assert catalog.resolve_partition(partitioned, text) == odd.name


def test_what_is_no_partition(catalog: Catalog, partitioned: Table) -> None:
    with pytest.raises(NotFound, match="d=x,n=1"):
        catalog.resolve_partition(partitioned, "d=x,n=1")
    for text in ("d=x", "n=1,d=x"):
        with pytest.raises(Refused, match="keys d, n in this order"):
            catalog.resolve_partition(partitioned, text)
    flat = catalog.create_table("default", "flat", "/f", [INT])
    with pytest.raises(Refused, match="not partitioned"):
        catalog.resolve_partition(flat, "d=x")


def test_properties(catalog: Catalog) -> None:
    made = catalog.create_table("default", "t", "/t", [INT])
    assert catalog.set_table_parameter(made, "no_cleanup", "true").no_cleanup
    assert not catalog.set_table_parameter(made, "no_cleanup", None).no_cleanup
    catalog.set_database_parameter("default", "no_auto_compaction", "true")
    assert catalog.table("default", "t").no_auto_compaction
    assert catalog.databases()["default"] == {"no_auto_compaction": "true"}
    with pytest.raises(NotFound, match="none"):
        catalog.set_database_parameter("none", "a", "b")


def test_dropping_leaves_no_row(metastore: Metastore, catalog: Catalog) -> None:
    def left() -> dict[str, int]:
        counted = [name for name in t.metadata.tables if name != "SEQUENCE_TABLE"]
        with metastore.database.read() as conn:
            return {name: conn.exec_driver_sql(f'SELECT COUNT(*) FROM "{name}"').scalar_one() for name in counted}

    before = left()
    made = catalog.create_table(
        "default", "p", "/p", [INT], partition_keys=KEYS, parameters={"a": "b"}, bucket_columns=["a"], buckets=1
    )
    for number in "12":
        catalog.add_partition(made, ["x", number])
    catalog.drop_partition(made, "d=x/n=1")
    assert [part.values for part in catalog.partitions(made)] == [("x", "2")]
    catalog.drop_table(made)
    assert left() == before
    assert catalog.create_table("default", "p", "/p", [INT]).id != made.id


def statements(metastore: Metastore, call: Any) -> int:
    seen: list[str] = []

    def note(conn: Any, cursor: Any, statement: str, *rest: Any) -> None:
        seen.append(statement)

    event.listen(metastore.database.engine, "before_cursor_execute", note)
    try:
        call()
    finally:
        event.remove(metastore.database.engine, "before_cursor_execute", note)
    return len(seen)


def test_the_number_of_statements_does_not_grow(metastore: Metastore, catalog: Catalog, partitioned: Table) -> None:
    catalog.add_partition(partitioned, ["x", "0"])
    few = statements(metastore, catalog.tables), statements(metastore, lambda: catalog.partitions(partitioned))
    for number in range(1, 8):
        catalog.create_table("default", f"t{number}", "/t", [INT], parameters={"a": "b"})
        catalog.add_partition(partitioned, ["x", str(number)])
    many = statements(metastore, catalog.tables), statements(metastore, lambda: catalog.partitions(partitioned))
    assert len(catalog.tables()) >= 8
    assert many == few


def test_views_are_no_tables(metastore: Metastore, catalog: Catalog) -> None:
    catalog.create_table("default", "t", "/t", [INT])
    with metastore.database.write() as conn:
        conn.execute(t.TBLS.update().where(t.TBLS.c.TBL_NAME == "t").values(TBL_TYPE="VIRTUAL_VIEW"))
    assert "t" not in [found.name for found in catalog.tables()]


def test_parameters_alone_are_those_of_the_table_and_its_database(metastore: Metastore, catalog: Catalog) -> None:
    catalog.create_table("default", "T1", "/t", [INT], parameters={"a": "b"})
    catalog.create_table("default", "t2", "/t", [INT], parameters={"c": "d"})
    catalog.set_database_parameter("default", "e", "f")
    table = catalog.table("default", "t1")
    assert (
        catalog.parameters("DEFAULT", "T1") == (table.parameters, table.database_parameters) == ({"a": "b"}, {"e": "f"})
    )
    assert statements(metastore, lambda: catalog.parameters("default", "t1")) < statements(
        metastore, lambda: catalog.table("default", "t1")
    )
    with metastore.database.write() as conn:
        conn.execute(t.TBLS.update().where(t.TBLS.c.TBL_NAME == "t2").values(TBL_TYPE="VIRTUAL_VIEW"))
    for name in ("t2", "t3"):
        with pytest.raises(NotFound, match=name):
            catalog.parameters("default", name)
