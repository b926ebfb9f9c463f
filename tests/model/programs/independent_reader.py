"""The rows of a table as its files and its metastore's rows say; no code is shared with the product."""

from __future__ import annotations

import datetime
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.model import reader
from tests.model.programs.plain_tables import PARTITION, PlainTable, in_order, shown

_FIRST_GREGORIAN_DAY = -141_427
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def rows_of_files(database: Path, name: str, table: PlainTable) -> list[tuple[Any, ...]]:
    """Returns all rows that a snapshot taken now shows, in the order of ``PlainTable.shown``."""
    with closing(sqlite3.connect(database)) as connection:
        ask = connection.execute
        snapshot = _snapshot(connection, name)
        ((number, location),) = ask(
            "SELECT TBL_ID, LOCATION FROM TBLS JOIN SDS USING (SD_ID) WHERE TBL_NAME = ?", (name,)
        ).fetchall()
        parts = ask(
            "SELECT PART_KEY_VAL, LOCATION FROM PARTITIONS JOIN SDS USING (SD_ID) JOIN PARTITION_KEY_VALS USING (PART_ID) "
            "WHERE TBL_ID = ?",
            (number,),
        ).fetchall()
    kinds = [kind for column, kind in table.columns.items() if not (table.is_partitioned and column == PARTITION)]
    places: list[tuple[tuple[Any, ...], str]] = [((), location)]
    if table.is_partitioned:
        kind = table.columns[PARTITION]
        places = [((shown(_of_name(value, kind), kind),), location) for value, location in parts]
    return in_order(
        (*(shown(_gregorian(value, kind), kind) for value, kind in zip(row, kinds, strict=True)), *values)
        for values, location in places
        for _, row in reader.read_rows(Path(location), snapshot, kinds)
    )


def tables_of(database: Path) -> set[str]:
    """Returns the names of all tables."""
    with closing(sqlite3.connect(database)) as connection:
        return {name for (name,) in connection.execute("SELECT TBL_NAME FROM TBLS")}


def _snapshot(connection: sqlite3.Connection, name: str) -> reader.Snapshot:
    """Returns what a reader sees who starts now: all but what open and aborted transactions have written."""
    ((newest,),) = connection.execute("SELECT max(TXN_ID) FROM TXNS").fetchall()
    unfinished = dict(connection.execute("SELECT TXN_ID, TXN_STATE FROM TXNS WHERE TXN_STATE <> 'c'"))
    written = connection.execute(
        "SELECT T2W_TXNID, T2W_WRITEID FROM TXN_TO_WRITE_ID WHERE T2W_TABLE = ?", (name,)
    ).fetchall()
    next_ids = connection.execute("SELECT NWI_NEXT FROM NEXT_WRITE_ID WHERE NWI_TABLE = ?", (name,)).fetchall()
    return reader.Snapshot(
        txn_watermark=newest,
        txns_not=frozenset(unfinished),
        watermark=max((number - 1 for (number,) in next_ids), default=0),
        open=frozenset(write_id for txn, write_id in written if unfinished.get(txn) == "o"),
        aborted=frozenset(write_id for txn, write_id in written if unfinished.get(txn) == "a"),
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
