"""The rows of a scan as Hive and Trino print them, with their ROW__IDs."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from compactor.tables.schema import PARTS
from compactor.tables.table import Table
from tests.support.expected import plain, render


def lines_of_scan(table: Table, kinds: list[str], keys: int) -> list[tuple[tuple[int, ...], list[str], list[str]]]:
    """Returns ROW__ID, texts of the columns, which are of Hive's types ``kinds``, and partition values of every row; a table
    has ``keys`` partition columns."""
    rows = table.scan(row_ids=True, timestamps="parts").to_arrow()
    found = []
    columns = [column.combine_chunks() for column in rows.columns]
    for cells in zip(*columns, strict=True) if rows.num_rows else ():
        row_id, *values = (shown(plain(cell), cell.type) for cell in cells)
        count = len(values) - keys
        texts = [render(value, kind) for value, kind in zip(values[:count], kinds, strict=True)]
        partition = ["__HIVE_DEFAULT_PARTITION__" if value is None else str(value) for value in values[count:]]
        found.append((row_id, texts, partition))
    return found


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
