from __future__ import annotations

import pytest

from compactor.base.errors import BadSetting, NotFound, Refused
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.read import Catalog
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import Metastore
from compactor.site.named_tables import Where, find_table, find_where, nearest, parse_table


@pytest.fixture
def catalog(metastore: Metastore) -> Catalog:
    """Has the databases default, sales and both; the tables default.orders, default.both and sales.orders by ``p``."""
    embedded = metastore.embedded_catalog
    for database in ("default", "sales", "both"):
        embedded.create_database(database, f"/w/{database}")
    int_, key = [Column(name="a", type="int")], [Column(name="p", type="string")]
    for name in ("orders", "both"):
        embedded.create_table(NewTable("default", name, f"/w/{name}", int_))
    parted = embedded.create_table(NewTable("sales", "orders", "/w/sales/orders", int_, partition_keys=key))
    embedded.add_partition(parted, ["a=b"])
    return metastore.catalog


@pytest.mark.parametrize(
    ("text", "names"), [("D.T", ("d", "t")), ("t", ("default", "t")), (" sales.orders ", ("sales", "orders"))]
)
def test_a_tables_name(text: str, names: tuple[str, str]) -> None:
    assert parse_table(text) == names


@pytest.mark.parametrize("text", ["", "d.", ".t", "a.b.c"])
def test_invalid_table_names(text: str) -> None:
    with pytest.raises(Refused, match=r"expected DATABASE\.TABLE"):
        parse_table(text)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (None, Where()),
        ("Orders", Where(database="default", table="orders")),
        ("sales", Where(database="sales")),
        ("SALES.*", Where(database="sales")),
        ("both.*", Where(database="both")),
        ("default.both", Where(database="default", table="both")),
        (" sales.orders ", Where(database="sales", table="orders")),
    ],
)
def test_one_reading_of_names(catalog: Catalog, name: str | None, found: Where) -> None:
    assert find_where(catalog, name, None) == found


def test_a_table_and_a_database_of_one_name_must_be_written_out(catalog: Catalog) -> None:
    with pytest.raises(BadSetting, match=r"a table default\.both and a database both; write default\.both or both\.\*"):
        find_where(catalog, "both", None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("default.order", "table default.order is not in the metastore; did you mean default.orders?"),
        ("sales.ordres", "table sales.ordres is not in the metastore; did you mean sales.orders?"),
        ("ordesr", "table or database ordesr is not in the metastore; did you mean default.orders?"),
        ("sale.*", "database sale is not in the metastore; did you mean sales.*?"),
        ("slaes", "table or database slaes is not in the metastore; did you mean sales.*?"),
        ("zzzz.qqqqqqqq", "table zzzz.qqqqqqqq is not in the metastore; look at `compactor show tables`"),
    ],
)
def test_what_is_not_there_is_an_error_with_the_nearest_name(catalog: Catalog, name: str, said: str) -> None:
    with pytest.raises(NotFound) as raised:
        find_where(catalog, name, None)
    assert str(raised.value) == said


@pytest.mark.parametrize(
    ("name", "there"), [("gone", "default.gone"), ("gone.*", "gone.*"), ("sales.gone", "sales.gone")]
)
def test_something_dropped_is_found_by_its_rows(catalog: Catalog, name: str, there: str) -> None:
    assert str(find_where(catalog, name, None, lambda where: str(where) == there)) == there


@pytest.mark.parametrize("text", ["p=a%3Db", "p=a=b", "p='a=b'"])
def test_partitions_in_both_spellings(catalog: Catalog, text: str) -> None:
    assert find_where(catalog, "sales.orders", text) == Where(database="sales", table="orders", partition="p=a%3Db")


def test_partitions_that_are_none(catalog: Catalog) -> None:
    with pytest.raises(NotFound, match="no partition 'p=x'"):
        find_where(catalog, "sales.orders", "p=x")
    assert find_where(catalog, "sales.orders", "p=x", lambda where: where.partition == "p=x").partition == "p=x"
    with pytest.raises(BadSetting, match="name its table"):
        find_where(catalog, None, "p=x")
    with pytest.raises(BadSetting, match=r"'sales' is a database; name a table, as sales\.TABLE"):
        find_where(catalog, "sales", "p=x")


@pytest.mark.parametrize("name", ["", "a.b.c", ".t", "d."])
def test_what_is_no_name(catalog: Catalog, name: str) -> None:
    with pytest.raises(BadSetting, match=r"expected DB\.TABLE"):
        find_where(catalog, name, None)


def test_a_table_that_is_not_there(catalog: Catalog) -> None:
    assert find_table(catalog, "Orders").name == "orders"
    with pytest.raises(NotFound, match=r"did you mean sales\.orders\?"):
        find_table(catalog, "sales.oders")
    with pytest.raises(NotFound, match=r"'sales' is a database; name one of its tables, as sales\.TABLE"):
        find_table(catalog, "sales")


def test_the_most_similar_name() -> None:
    assert nearest("wrking", ["working", "initiated"]) == "; did you mean working?"
    assert nearest("x", ["working"]) == ""
