"""Tables that real Hives and a real Trino wrote, scanned: rows and ROW__IDs are as their writers showed them."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.demo.fixtures import register_fixture
from compactor.service.site import Site
from compactor.tables.schema import PARTS
from compactor.tables.store import Store
from tests.support.expected import Expected, difference, plain, read_expected, render_line, step, step_id, steps
from tests.support.tables import with_settings

#: Of Hive 2 what needs no major in Hive 2 before it is replaced (docs/before-hive-3.md).
OF_HIVE_2 = (
    "f1_basic/s1_insert",
    "f1_basic/s9_major_cleaned",
    "f6_types/s1_dml",
    "f7_v1/s3_major",
)
STEPS = [*(step(f"hive-2.3/{name}") for name in OF_HIVE_2), *steps("hive-3.1", "hive-4.1", "trino-476")]


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


def shown(value: Any, kind: pa.DataType) -> Any:
    """Returns a value in the form that ``render_line`` takes: a day by its date, since a scan counts days as Arrow does."""
    if value is None:
        return None
    if pa.types.is_date(kind):
        return _date(value)
    if kind.equals(PARTS):
        days, seconds = divmod(value[0], 86_400)
        return _Instant(_date(days), seconds, value[1])
    if pa.types.is_struct(kind):
        return tuple(shown(part, field.type) for part, field in zip(value, kind, strict=True))
    if pa.types.is_map(kind):
        return [(shown(k, kind.key_type), shown(v, kind.item_type)) for k, v in value]
    if pa.types.is_list(kind):
        return [shown(item, kind.value_type) for item in value]
    return value


def _date(days: int) -> datetime.date:
    return datetime.date.fromordinal(datetime.date(1970, 1, 1).toordinal() + days)


class _Instant(datetime.datetime):
    """A timestamp with nanoseconds."""

    nanosecond: int

    def __new__(cls, day: datetime.date, seconds: int, nanos: int) -> _Instant:
        made = super().__new__(
            cls, day.year, day.month, day.day, seconds // 3600, seconds // 60 % 60, seconds % 60, nanos // 1000
        )
        made.nanosecond = nanos % 1000
        return made


def rendered(rows: pa.Table, expected: Expected, keys: int) -> list[tuple[tuple[int, ...], str]]:
    """Returns ROW__ID and line of every row, as Hive or Trino print it."""
    found = []
    columns = [column.combine_chunks() for column in rows.columns]
    for cells in zip(*columns, strict=True) if rows.num_rows else ():
        row_id, *values = (shown(plain(cell), cell.type) for cell in cells)
        partition = [
            str(cell) if cell is not None else "__HIVE_DEFAULT_PARTITION__" for cell in values[len(values) - keys :]
        ]
        found.append((row_id, render_line(expected, values[: len(values) - keys], partition)))
    return found


def check(site: Site, warehouse: Path, step: Path) -> None:
    table = register_fixture(site.metastore, step, warehouse)
    loaded = Store(site).load_table(str(table))
    expected = read_expected(step)
    rows = loaded.scan(row_ids=True, timestamps="parts").to_arrow()
    found = rendered(rows, expected, len(table.partition_keys))
    assert difference([(tuple(k), v) for k, v in expected.row_ids], found) == ""
    assert loaded.scan().count() == len(expected.rows)


@pytest.mark.whole
@pytest.mark.parametrize("step", STEPS, ids=step_id)
def test_a_scan_shows_what_the_writer_showed(site: Site, warehouse: Path, step: Path) -> None:
    check(site, warehouse, step)


#: One of each writer and kind: types, partitions, aborts, originals, several stripes, Trino's files.
SOME = (
    "hive-2.3/f7_v1/s3_major",
    "hive-3.1/f3_abort/s1_aborts",
    "hive-4.1/f6_types/s1_dml",
    "trino-476/t2_part/s2_dml",
)


@pytest.mark.parametrize("name", SOME)
def test_a_scan_shows_some_of_them(site: Site, warehouse: Path, name: str) -> None:
    check(site, warehouse, step(name))
