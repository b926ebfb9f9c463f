from __future__ import annotations

import pytest
from sqlalchemy import BigInteger, Table
from sqlalchemy.engine import Dialect, make_url
from sqlalchemy.schema import CreateTable

from compactor.metastore.schema import tables
from compactor.metastore.schema.tables import SCHEMA_VERSION, SEEDS, TRANSACTION_TABLES, metadata

DIALECTS: list[Dialect] = [
    make_url(f"{name}://h/d").get_dialect()() for name in ("sqlite", "postgresql+psycopg", "mysql+pymysql")
]


@pytest.mark.parametrize("table", metadata.tables.values(), ids=lambda table: table.name)
def test_names_are_upper_case_as_hive_4_has_them(table: Table) -> None:
    assert table.name == table.name.upper()
    assert all(column.name == column.name.upper() for column in table.columns)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_every_dialect_can_say_them(dialect: Dialect) -> None:
    for table in metadata.tables.values():
        assert str(CreateTable(table).compile(dialect=dialect)).strip().startswith("CREATE TABLE")


def test_ids_have_64_bits() -> None:
    for table in TRANSACTION_TABLES:
        for column in table.columns:
            if column.name.endswith(("TXNID", "TXN_ID", "WRITEID", "WRITE_ID")):
                assert isinstance(column.type, BigInteger), column


def test_the_first_rows_fit_and_the_version_is_the_last() -> None:
    for table, values in SEEDS:
        assert set(values) <= set(table.columns.keys())
        missing = {c.name for c in table.columns if not c.nullable and c.server_default is None} - set(values)
        assert not missing, table
    last, values = SEEDS[-1]
    assert (last, values["SCHEMA_VERSION"]) == (tables.VERSION, SCHEMA_VERSION)
