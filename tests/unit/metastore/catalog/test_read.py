from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

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
    text: str, catalog: Catalog, embedded: EmbeddedCatalog, partitioned: Table
) -> None:
    odd = embedded.add_partition(partitioned, ["a b=c/d%", "3"])
    assert catalog.resolve_partition(partitioned, text) == odd.name


def test_what_is_no_partition(catalog: Catalog, embedded: EmbeddedCatalog, partitioned: Table) -> None:
    with pytest.raises(NotFound, match="d=x,n=1"):
        catalog.resolve_partition(partitioned, "d=x,n=1")
    for text in ("d=x", "n=1,d=x"):
        with pytest.raises(Refused, match="keys d, n in this order"):
            catalog.resolve_partition(partitioned, text)
    flat = embedded.create_table(NewTable("default", "flat", "/f", [INT]))
    with pytest.raises(Refused, match="not partitioned"):
        catalog.resolve_partition(flat, "d=x")


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


def test_the_number_of_statements_does_not_grow(
    metastore: Metastore, catalog: Catalog, embedded: EmbeddedCatalog, partitioned: Table
) -> None:
    embedded.add_partition(partitioned, ["x", "0"])
    few = statements(metastore, catalog.tables), statements(metastore, lambda: catalog.partitions(partitioned))
    for number in range(1, 8):
        embedded.create_table(NewTable("default", f"t{number}", "/t", [INT], parameters={"a": "b"}))
        embedded.add_partition(partitioned, ["x", str(number)])
    many = statements(metastore, catalog.tables), statements(metastore, lambda: catalog.partitions(partitioned))
    assert len(catalog.tables()) >= 8
    assert many == few


def test_views_are_no_tables(metastore: Metastore, catalog: Catalog, embedded: EmbeddedCatalog) -> None:
    embedded.create_table(NewTable("default", "t", "/t", [INT]))
    with metastore.database.write() as conn:
        conn.execute(t.TBLS.update().where(t.TBLS.c.TBL_NAME == "t").values(TBL_TYPE="VIRTUAL_VIEW"))
    assert "t" not in [found.name for found in catalog.tables()]


def test_parameters_alone_are_those_of_the_table_and_its_database(
    metastore: Metastore, catalog: Catalog, embedded: EmbeddedCatalog
) -> None:
    embedded.create_table(NewTable("default", "T1", "/t", [INT], parameters={"a": "b"}))
    embedded.create_table(NewTable("default", "t2", "/t", [INT], parameters={"c": "d"}))
    embedded.set_database_parameter("default", "e", "f")
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


def test_the_tables_that_have_a_parameter_or_whose_database_has(catalog: Catalog, embedded: EmbeddedCatalog) -> None:
    embedded.create_database("other", "file:/o", {"compactor.b": "1"})
    for database, name in (("default", "with"), ("default", "without"), ("other", "inherits")):
        embedded.create_table(NewTable(database, name, f"file:/w/{name}", [INT]))
    embedded.set_table_parameter(catalog.table("default", "with"), "compactor.a", "2")
    assert catalog.tables_setting({"compactor.a", "compactor.b"}) == {("default", "with"), ("other", "inherits")}
    assert catalog.tables_setting({"compactor.c"}) == set()
