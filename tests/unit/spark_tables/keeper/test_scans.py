"""The parts of a query's condition by which rows are left out before Spark evaluates it."""

from __future__ import annotations

from pathlib import Path

import pytest

from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from compactor.spark_tables.keeper.scans import keep_alike_conditions
from compactor.tables.store import Store, named_table


@pytest.fixture
def table(deployment: Site, warehouse: Path) -> Table:
    store = Store(deployment)
    store.create_database("d", str(warehouse))
    kinds = {"i": "int", "n": "decimal(9,2)", "l": "decimal(38,2)", "x": "double", "c": "char(3)", "s": "string"}
    store.create_table("d.t", kinds | {"b": "boolean", "t": "timestamp", "day": "date"}, partitioned_by=["day"])
    return named_table(deployment, "d.t")


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("`i` = 1 AND `x` > 2.5", ["`i` = 1"]),
        ("day = '2026-11-01' AND n >= 1.5 AND s IS NOT NULL", ["day = '2026-11-01'", "n >= 1.5", "s IS NOT NULL"]),
        ("NOT (i IN (1, 2) OR s = 'a')", ["NOT (i IN (1, 2) OR s = 'a')"]),
        ("i = 1 OR x = 2 AND s = 'a'", []),
        ("i BETWEEN 1 AND 2 AND s = 'a'", ["i BETWEEN 1 AND 2 AND s = 'a'"]),
        ("(i = 1 AND x = 2) AND s = 'and or'", ["s = 'and or'"]),
        ("c = 'a' AND b AND t = '2026-11-01' AND s LIKE 'a%'", []),
        ("i = '1' AND s = 1 AND s = DATE '2026-11-01'", []),
        ("i = 1e3 AND i > 1234567890123456789 AND l = 1", []),
        ("day = '2026-11-01 00:00:00' AND day > 'soon'", []),
        ("i = s AND lower(s) = 'a'", []),
    ],
)
def test_only_what_spark_evaluates_alike_leaves_rows_out(table: Table, where: str, kept: list[str]) -> None:
    assert [part.strip() for part in keep_alike_conditions(where, table)] == kept
