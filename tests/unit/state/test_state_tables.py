from __future__ import annotations

import pytest
from sqlalchemy import Integer, Table, make_url
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateTable

from compactor.state.state_database import OwnState
from compactor.state.state_tables import BATCHES, VERSION_TABLE, lock_state, metadata

OURS = list(metadata.tables.values())


def dialect(name: str) -> Dialect:
    return make_url(f"{name}://h/d").get_dialect()()


@pytest.mark.parametrize("table", OURS, ids=lambda table: table.name)
def test_names_say_whose_they_are(table: Table) -> None:
    assert table.name.startswith("COMPACTOR_")
    assert all(column.name == column.name.upper() for column in table.columns)


@pytest.mark.parametrize("table", OURS, ids=lambda table: table.name)
def test_no_number_that_counts_up_ends_at_32_bits(table: Table) -> None:
    for column in table.columns:
        if isinstance(column.type, Integer) and column.name != "ATTEMPT":
            assert column.type.dialect_impl(dialect("mysql+pymysql")).__visit_name__ in ("BIGINT", "big_integer"), (
                column
            )


@pytest.mark.usefixtures("fresh")  # the options of MySQL are set when a state is created
def test_names_differ_by_case_on_mysql_and_numbers_are_never_reused_on_sqlite() -> None:
    assert "utf8mb4_bin" in str(CreateTable(BATCHES).compile(dialect=dialect("mysql+pymysql")))
    assert "AUTOINCREMENT" in str(CreateTable(BATCHES).compile(dialect=dialect("sqlite")))


def test_alone_is_a_row_that_is_there(fresh: OwnState) -> None:
    with fresh.database.write() as conn:
        lock_state(conn)
        assert len(conn.exec_driver_sql(f"SELECT * FROM {VERSION_TABLE}").all()) == 1
