"""Columns that changed, as Hive reads them by batch and row by row, and Trino: the same before and after our compactions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.trino import Trino

OLD = "a int, t int, d int, v varchar(3), k char(3), f float, s struct<x:int>, l array<int>"
CHANGES = (
    "a a bigint",
    "t t string",
    "d d double",
    "v w varchar(20)",
    "k k char(6)",
    "f f double",
    "l l array<bigint>",
)
PREDICATES = ("true", "t = '1'", "a < 2", "d = 1", "w = 'v1'", "c is null", "f = 0.5")


def _older(beside: Beside, name: str) -> None:
    """A table of two deltas that are older than its columns."""
    hive = beside.hive
    hive.sql(f"create table {name} ({OLD}) {TRANSACTIONAL}")
    for key in (1, -2):
        nested = f"named_struct('x', {key}), array({key}, null)"
        hive.sql(f"insert into {name} select {key}, {key}, {key}, 'v{key}', 'k', 0.5, {nested}")
    for change in CHANGES:
        hive.sql(f"alter table {name} change column {change}")
    hive.sql(f"alter table {name} add columns (c date, n decimal(5,2))")


def _newer(beside: Beside, name: str) -> None:
    beside.hive.sql(
        f"insert into {name} select 5000000000, 'text', 1.5, 'longer than three', 'k', 0.1, named_struct('x', 3), "
        "array(6000000000), date '2024-02-29', 1.25"
    )


def _seen(beside: Beside, name: str) -> list[list[str]]:
    """All rows, and those that predicates on changed columns find, for both of Hive's readers."""
    return [
        sorted(beside.hive.sql(f"select * from {name} where {condition}", session))
        for session in ("main", "by row")
        for condition in PREDICATES
    ]


def _shown(trino: Trino, name: str) -> list[list[list[Any]]]:
    """The same by Trino."""
    return [trino.sql(f"select * from {name} where {condition} order by a") for condition in PREDICATES]


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_all_read_changed_columns_alike_before_and_after(beside: Beside, trino: Trino, kind: str) -> None:
    """DESIGN 8: the rows that a reader sees are the same before and after any compaction."""
    name = f"evolved_{kind}"
    _older(beside, name)
    for step in (lambda: None, lambda: _newer(beside, name)):
        step()
        before, shown = _seen(beside, name), _shown(trino, name)
        [done] = beside.compact(name, kind)
        assert done["fate"] == "compacted", done
        assert _seen(beside, name) == before
        assert _shown(trino, name) == shown
    beside.clean_all()
    assert _seen(beside, name) == before
    assert _shown(trino, name) == shown
    assert len(before[0]) == 3
    # A char that grew: over the old files Hive's predicate found the new row only, for it compares padded texts.
    for session in ("main", "by row"):
        assert len(beside.hive.sql(f"select a from {name} where k = 'k'", session)) == 3
