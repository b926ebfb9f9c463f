from __future__ import annotations

import subprocess
import sys

import pytest
from sqlalchemy import Boolean, Column, MetaData, Table, Text
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.schema import CreateTable

from compactor.database.mysql_types import MySQLBit, MySQLType

TABLE = Table(
    "T",
    MetaData(),
    Column("A", Text().with_variant(MySQLType("LONGTEXT"), "mysql", "mariadb")),
    Column("B", Boolean().with_variant(MySQLBit(), "mysql", "mariadb")),
)


def test_only_mysql_has_its_own_types() -> None:
    assert "LONGTEXT" in str(CreateTable(TABLE).compile(dialect=mysql.dialect()))
    assert "BIT(1)" in str(CreateTable(TABLE).compile(dialect=mysql.dialect()))
    assert 'TEXT, \n\t"B" BOOLEAN' in str(CreateTable(TABLE).compile(dialect=sqlite.dialect()))


@pytest.mark.parametrize(("stored", "value"), [(b"\x01", 1), (b"\x00", 0), (None, None), (1, 1)])
def test_a_bit_is_read_as_sqlalchemys_own_type_reads_it(stored: object, value: object) -> None:
    process = TABLE.c.B.type.dialect_impl(mysql.dialect()).result_processor(mysql.dialect(), None)
    assert process is not None
    assert process(stored) == value
    if not isinstance(stored, int):
        peer = mysql.BIT(1).result_processor(mysql.dialect(), None)
        assert peer is not None
        assert peer(stored) == value  # type: ignore[arg-type]


def test_tables_load_no_server() -> None:
    """The schema's tables and our own are built in every command, also where the database is a file."""
    code = (
        "import sys, compactor.metastore.schema.tables, compactor.state.state_tables; "
        "servers = {'sqlalchemy.dialects.mysql', 'sqlalchemy.dialects.postgresql'} & set(sys.modules); "
        "sys.exit(f'imported: {sorted(servers)}' if servers else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
