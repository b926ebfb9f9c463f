"""Insert-only tables beside a live Hive: each side reads and compacts again what the other one left."""

from __future__ import annotations

import pytest

from tests.support.beside import Beside

_INSERT_ONLY = "tblproperties('transactional'='true', 'transactional_properties'='insert_only')"
_COLUMNS = "a int, b string, c decimal(20,5), d date, t timestamp, l array<string>"


@pytest.mark.parametrize("stored", ["orc", "parquet", "textfile"])
def test_both_sides_take_turns(beside: Beside, stored: str) -> None:
    table = f"io_{stored}"
    beside.hive.sql(f"create table {table} ({_COLUMNS}) stored as {stored} {_INSERT_ONLY}")

    def insert(value: int) -> None:
        beside.hive.sql(
            f"insert into {table} select {value}, 'text {value}', {value}.25, date'2020-02-29', "
            "timestamp'2021-03-04 05:06:07.123', array('x', null)"
        )
        beside.hive.sql(f"insert into {table} (a) values ({value + 1})")

    def rows() -> list[str]:
        found = sorted(beside.hive.sql(f"select * from {table}"))
        assert sorted(beside.hive.sql(f"select * from {table}", session="by row")) == found
        return found

    insert(10)
    insert(20)
    wanted = rows()
    assert len(wanted) == 4
    [minor] = beside.compact(table, "minor")
    assert minor["fate"] == "compacted", minor
    assert rows() == wanted
    beside.clean()
    assert [name[:21] for name in beside.names(table)] == ["delta_0000001_0000004"]
    assert rows() == wanted
    insert(30)
    wanted = rows()
    [major] = beside.compact(table, "major")
    assert major["fate"] == "compacted", major
    assert rows() == wanted
    beside.hive_clean()
    assert [name[:12] for name in beside.names(table)] == ["base_0000006"]
    insert(40)
    wanted = rows()
    beside.hive_compact(table, "major")
    assert rows() == wanted
    beside.hive_clean()
    insert(50)
    wanted = rows()
    [again] = beside.compact(table, "major")
    assert again["fate"] == "compacted", again
    beside.clean()
    assert [name[:12] for name in beside.names(table)] == ["base_0000010"]
    assert rows() == wanted
    assert len(wanted) == 10
