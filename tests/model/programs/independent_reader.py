"""The rows of a table as its files say, by ``reader``, which shares no code with the product."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from compactor.site.site import Site
from tests.model import reader
from tests.model.programs.plain_tables import PARTITION, PlainTable, in_order, shown

_FIRST_GREGORIAN_DAY = -141_427
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def rows_of_files(site: Site, name: str, table: PlainTable) -> list[tuple[Any, ...]]:
    """Returns all rows that a snapshot taken now shows, in the order of ``PlainTable.shown``."""
    txns = site.metastore.transactions.snapshot()
    snapshot = reader.Snapshot.of(str(txns), str(site.metastore.write_ids.valid("default", name, txns)))
    known = site.metastore.catalog.table("default", name)
    kinds = [kind for column, kind in table.columns.items() if not (table.is_partitioned and column == PARTITION)]
    places = [((), known.location)]
    if table.is_partitioned:
        parts = site.metastore.catalog.partitions(known)
        kind = table.columns[PARTITION]
        places = [((shown(_of_name(part.values[0], kind), kind),), part.location) for part in parts]
    return in_order(
        (*(shown(_gregorian(value, kind), kind) for value, kind in zip(row, kinds, strict=True)), *values)
        for values, location in places
        for _, row in reader.rows(Path(location), snapshot, kinds)
    )


def _of_name(text: str, kind: str) -> Any:
    """Returns the value of a partition column that a directory's name has."""
    if text == _NO_VALUE:
        return None
    if kind == "boolean":
        return {"true": True, "false": False}[text]
    return int(text) if kind.endswith("int") else text


def _gregorian(value: Any, kind: str) -> Any:
    """Returns days as dates; those before 1582-10-15 are counted in the Julian calendar, at any depth."""
    if value is None:
        return None
    if kind == "date":
        return _date(value)
    if kind == "timestamp":
        days, seconds = divmod(value[0], 86_400)
        return (_date(days).toordinal() - datetime.date(1970, 1, 1).toordinal()) * 86_400 + seconds, value[1]
    if kind == "struct<m:map<string,int>,t:timestamp>":
        return value[0], _gregorian(value[1], "timestamp")
    if kind == "array<struct<n:decimal(9,2),d:date>>":
        return [item and (item[0], _gregorian(item[1], "date")) for item in value]
    return value


def _date(days: int) -> datetime.date:
    if days >= _FIRST_GREGORIAN_DAY:
        return datetime.date(1970, 1, 1) + datetime.timedelta(days)
    since = days + 2_440_588 + 32_082  # days since March 1st of -4800, Julian
    year = (4 * since + 3) // 1461
    day_of_year = since - 1461 * year // 4
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    return datetime.date(year - 4800 + month // 10, month + 3 - 12 * (month // 10), day)
