"""Values at the edges of types: NaN, infinities, days of the Julian calendar, years and digits beyond Arrow's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from compactor.tables import Store, Table
from compactor.tables.schema import PARTS
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.expected import difference
from tests.support.typed_tables import BY_BATCH, BY_ROW

NUMBERS = ("NaN", "Infinity", "-Infinity", "-1.5", "1.0E-10", "1.0E10")
DAYS = ("0001-01-01", "1000-02-28", "1500-03-01", "1582-10-04", "1582-10-15", "9999-12-31")
TIMES = tuple(f"{day} {clock}" for day in DAYS for clock in ("00:00:00.000000001", "23:59:59.999999999"))
EDGES = ("1969-12-30 23:59:59.999999999", "1969-12-31 23:59:59", "1970-01-01 00:00:00.000000001", "2262-04-12 00:00:00")


def _parts(texts: Sequence[str]) -> pa.StructArray:
    seconds = [int(np.datetime64(text[:19].replace(" ", "T"), "s").astype(np.int64)) for text in texts]
    nanos = [int(text.partition(".")[2] or 0) for text in texts]
    return pa.StructArray.from_arrays([pa.array(seconds), pa.array(nanos, pa.int32())], fields=list(PARTS))


def test_edges_of_types(beside: Beside) -> None:
    """Hive and our programs write the same values, which all show alike; changes and compactions lose nothing of them."""
    hive, name = beside.hive, "edges"
    hive.sql(f"create table {name} (id int, mark int, f float, d double, day date, t timestamp) {TRANSACTIONAL}")
    times = (*TIMES, *EDGES)
    count = len(times)
    cells = [
        f"{id} id, 0 mark, cast('{NUMBERS[id % len(NUMBERS)]}' as float) f, "
        f"cast('{NUMBERS[id % len(NUMBERS)]}' as double) d, "
        f"cast('{DAYS[id % len(DAYS)]}' as date) day, cast('{times[id]}' as timestamp) t"
        for id in range(count)
    ]
    hive.sql(f"insert into {name} select * from ({' union all '.join(f'select {row}' for row in cells)}) s")
    before = {int(line.split("\t")[0]): line.split("\t")[2:] for line in hive.sql(f"select * from {name}", BY_ROW)}
    assert [row[3] for _, row in sorted(before.items())] == [time.removesuffix(".") for time in times]

    def ours() -> Table:
        return Store(beside.site).load_table(f"default.{name}")

    rows = dict(before)
    marks = dict.fromkeys(before, 0)

    def check() -> None:
        wanted = ["\t".join([str(id), str(marks[id]), *row]) for id, row in rows.items()]
        shown = [sorted(hive.sql(f"select row__id, * from {name}", session)) for session in (BY_BATCH, BY_ROW)]
        for session, lines in zip((BY_BATCH, BY_ROW), shown, strict=True):
            assert difference(wanted, [line.partition("\t")[2] for line in lines]) == "", session
        assert shown[0] == shown[1]
        beside.scanned(name)

    def mark(ids: Sequence[int], value: int) -> None:
        for id in ids:
            marks[id] = value

    check()
    numbers = [float(NUMBERS[id % len(NUMBERS)]) for id in range(count)]
    given = pa.table(
        {
            "id": pa.array(range(100, 100 + count), pa.int32()),
            "mark": pa.array([0] * count, pa.int32()),
            "f": pa.array(np.array(numbers, dtype=np.float32)),
            "d": pa.array(numbers),
            "day": pa.array(np.array([DAYS[id % len(DAYS)] for id in range(count)], dtype="datetime64[D]")),
            "t": _parts(times),
        }
    )
    assert ours().append(given) == count
    rows |= {100 + id: before[id] for id in range(count)}
    mark(range(100, 100 + count), 0)
    check()
    for id, time in enumerate(times):
        found = ours().scan(f"t = '{time}'", selected_fields=["id"], timestamps="parts").to_arrow()
        hives = hive.sql(f"select id from {name} where t = cast('{time}' as timestamp)")
        assert sorted(found.column("id").to_pylist()) == sorted(map(int, hives)) == [id, 100 + id]
    assert ours().update({"mark": "1"}, where="id in (0, 1, 2, 3, 100, 101, 102, 103)") == 8
    mark((0, 1, 2, 3, 100, 101, 102, 103), 1)
    check()
    hive.sql(f"update {name} set mark = 2 where id in (4, 5, 104, 105)")
    mark((4, 5, 104, 105), 2)
    check()
    for value, kind in ((4, "minor"), (5, "major")):
        hive.sql(f"update {name} set mark = {value} where id in (6, 106)")
        mark((6, 106), value)
        [done] = beside.compact(name, kind)
        assert done["fate"] == "compacted", done
        check()
        beside.clean_all()
    assert ours().update({"t": "'9999-12-31 23:59:59.999999999'", "mark": "3"}, where="day < '1582-10-15'") > 0
    for id, row in rows.items():
        if row[2] < "1582-10-15":
            rows[id] = [*row[:3], "9999-12-31 23:59:59.999999999"]
            marks[id] = 3
    check()
    beside.hive_compact(name, "major")
    check()
    beside.clean_all()
    check()
