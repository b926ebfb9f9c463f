"""Tables whose columns were added, renamed and widened, by Hive and our programs: old rows, new rows, changed ones."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest

from compactor.tables import Store
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.expected import difference
from tests.support.typed_tables import BY_BATCH, BY_ROW

OLD = "id int, t int, d int, v varchar(3), k char(3), f float, s struct<x:int>, l array<int>, n decimal(5,2)"
CHANGES = (
    "t t bigint",
    "d d double",
    "v w varchar(20)",
    "k k char(6)",
    "f f double",
    "l l array<bigint>",
    "n n decimal(10,2)",
)
ADDED = "c date, m map<string,int>"


def _older(id: int) -> dict[str, Any]:
    values = {"id": id, "t": id, "d": id, "v": "v", "k": "k", "f": 0.5, "s": {"x": id}, "l": [id, None]}
    return {**values, "n": decimal.Decimal("1.50")}


def _newer(id: int) -> dict[str, Any]:
    values = {"id": id, "t": 5_000_000_000, "d": 1.5, "w": "longer than 3", "k": "longer", "f": 0.1, "s": {"x": id}}
    more = {"l": [6_000_000_000], "n": decimal.Decimal("12345.50"), "c": datetime.date(2024, 2, 29), "m": [("k", id)]}
    return {**values, **more}


def _table(rows: list[dict[str, Any]], p: str | None) -> pa.Table:
    maps = [row.pop("m", None) for row in rows]
    made = pa.Table.from_pylist([{**row, **({"p": p} if p else {})} for row in rows])
    return made.append_column("m", pa.array(maps, pa.map_(pa.string(), pa.int32()))) if any(maps) else made


def _old_sql(id: int) -> str:
    return f"select {id}, {id}, {id}, 'v', 'k', 0.5, named_struct('x', {id}), array({id}, cast(null as int)), 1.50"


def _new_sql(id: int) -> str:
    return (
        f"select {id}, 5000000000, 1.5, 'longer than 3', 'longer', 0.1, named_struct('x', {id}), array(6000000000), "
        f"12345.50, date '2024-02-29', map('k', {id})"
    )


OLD_LINE = '{0}\t{0}\t{0}.0\tv\tk     \t0.5\t{{"x":{0}}}\t[{0},null]\t1.50\tNULL\tNULL'
NEW_LINE = (
    '{0}\t5000000000\t1.5\tlonger than 3\tlonger\t0.1\t{{"x":{0}}}\t[6000000000]\t12345.50\t2024-02-29\t{{"k":{0}}}'
)


@pytest.mark.parametrize("shape", ["plain", "bucketed", "partitioned"])
def test_old_and_new_rows(beside: Beside, shape: str) -> None:
    """PROTOCOL 14.3: one schema for a scan, and what is written has the table's columns of now."""
    name, p = f"evolving_{shape}", "x" if shape == "partitioned" else None
    clause = {"plain": "", "bucketed": "clustered by (id) into 2 buckets", "partitioned": "partitioned by (p string)"}
    where = f"{name} partition (p='x')" if p else name
    tail = f"\t{p}" if p else ""
    hive, lines = beside.hive, {}

    def ours() -> Any:
        return Store(beside.site).load_table(f"default.{name}")

    def check() -> None:
        wanted = [line + tail for line in lines.values()]
        shown = [sorted(hive.sql(f"select row__id, * from {name}", session)) for session in (BY_BATCH, BY_ROW)]
        for session, found in zip((BY_BATCH, BY_ROW), shown, strict=True):
            assert difference(wanted, [line.partition("\t")[2] for line in found]) == "", session
        assert shown[0] == shown[1]
        beside.scanned(name)

    hive.sql(f"create table {name} ({OLD}) {clause[shape]} {TRANSACTIONAL}")
    hive.sql(f"insert into {where} {_old_sql(1)} union all {_old_sql(2)}")
    ours().append(_table([_older(3), _older(4)], p))
    for change in CHANGES:
        hive.sql(f"alter table {name} change column {change}{' cascade' if p else ''}")
    hive.sql(f"alter table {name} add columns ({ADDED}){' cascade' if p else ''}")
    lines = {id: OLD_LINE.format(id) for id in (1, 2, 3, 4)}
    check()
    hive.sql(f"insert into {where} {_new_sql(5)}")
    ours().append(_table([_newer(6), _newer(7)], p))
    lines |= {id: NEW_LINE.format(id) for id in (5, 6, 7)}
    check()
    assert ours().update({"w": "'ours'", "t": "6000000000"}, where="id in (1, 3, 5)") == 3
    hive.sql(f"update {name} set w = 'theirs', d = 2.5 where id in (2, 4, 6)")
    for id in (1, 3, 5):
        cells = lines[id].split("\t")
        lines[id] = "\t".join([cells[0], "6000000000", cells[2], "ours", *cells[4:]])
    for id in (2, 4, 6):
        cells = lines[id].split("\t")
        lines[id] = "\t".join([*cells[:2], "2.5", "theirs", *cells[4:]])
    check()
    [done] = beside.compact(name, "minor", "p=x" if p else None)
    assert done["fate"] == "compacted", done
    check()
    hive.sql(f"delete from {name} where id = 1")
    assert ours().delete("id = 2") == 1
    assert ours().upsert(_table([_newer(3), _newer(8)], p), ["id"]).updated == 1
    del lines[1], lines[2]
    lines |= {id: NEW_LINE.format(id) for id in (3, 8)}
    check()
    beside.hive_compact(name, "major", "p='x'" if p else None)
    check()
    ours().append(_table([_newer(9)], p))
    lines[9] = NEW_LINE.format(9)
    [done] = beside.compact(name, "major", "p=x" if p else None)
    assert done["fate"] == "compacted", done
    check()
    beside.clean_all()
    check()
