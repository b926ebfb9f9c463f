"""SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run

Sql = Callable[[str], list[Mapping[str, object]]]


@pytest.fixture
def sql(deployment: Site, warehouse: Path) -> Sql:
    for name in ("default", "sales", "stock"):
        deployment.metastore.embedded_catalog.create_database(name, str(warehouse / name))

    def go(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(deployment, check_text(text))][-1]

    go("create table sales.orders (id bigint) partitioned by (day date); create table sales.codes (c char(2))")
    return go


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("show databases", ["default", "sales", "stock"]),
        ("show schemas like 's*'", ["sales", "stock"]),
        ("show databases 'sal_s|def%'", ["default", "sales"]),
        ("show databases like 'S.*'", []),
        ("show tables in sales", ["codes", "orders"]),
        ("show tables from sales like '*o*s'", ["codes", "orders"]),
        ("use sales; show tables 'c*'", ["codes"]),
        ("show tables", []),
    ],
)
def test_names_by_pattern(sql: Sql, text: str, names: list[str]) -> None:
    assert [next(iter(row.values())) for row in sql(text)] == names


def test_a_table_is_described(sql: Sql) -> None:
    assert sql("describe sales.orders") == [
        {"col_name": "id", "data_type": "bigint", "comment": None},
        {"col_name": "day", "data_type": "date", "comment": "partition column"},
    ]
    detailed = {row["col_name"]: row["data_type"] for row in sql("desc formatted sales.orders")}
    assert (detailed["# database"], detailed["# parameter transactional"]) == ("sales", "true")
