"""ACID files as plain Python data, written and read one row at a time through pyorc."""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyorc
from pyorc.converters import ORCConverter

INSERT, DELETE = 0, 2
_KEYS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction")
_KEY_TYPES = ("int", "bigint", "int", "bigint", "bigint")

Key = tuple[int, int, int]  #: originalTransaction, bucket, rowId
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a file. ``row`` is None for a delete event."""

    operation: int
    key: Key
    current: int
    row: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The way in which a writer lays out a file."""

    codec: str = "ZLIB"
    stripe_rows: int = 1000
    stride: int = 10_000
    lower_case: bool = False  #: field names as query-based compactions of Hive write them
    attempt: bool = False  #: ``bucket_00000_0``, as DML of Hive 4 names files
    key_index: bool = True
    dictionary: bool = False


class _Timestamp(ORCConverter):
    @staticmethod
    def from_orc(seconds: int, nanoseconds: int, timezone: datetime.tzinfo) -> tuple[int, int]:
        return seconds, nanoseconds

    @staticmethod
    def to_orc(value: tuple[int, int], timezone: datetime.tzinfo) -> tuple[int, int]:
        return value


class _Date(ORCConverter):
    @staticmethod
    def from_orc(days: int) -> int:
        return days

    @staticmethod
    def to_orc(days: int) -> int:
        return days


_CONVERTERS = {pyorc.TypeKind.TIMESTAMP: _Timestamp, pyorc.TypeKind.DATE: _Date}


def row_type(columns: Sequence[str]) -> str:
    """Returns the struct of a table whose columns have these types; they are named c0, c1, ..."""
    return "struct<" + ",".join(f"c{place}:{kind}" for place, kind in enumerate(columns)) + ">"


def write_acid(path: Path, columns: Sequence[str], events: Sequence[Event], layout: Layout) -> None:
    """Writes an ACID file of these events, in this order."""
    names = [name.lower() if layout.lower_case else name for name in _KEYS]
    fields = [f"{name}:{kind}" for name, kind in zip(names, _KEY_TYPES, strict=True)]
    schema = "struct<" + ",".join([*fields, f"row:{row_type(columns)}"]) + ">"
    lines = [(event.operation, *event.key, event.current, event.row) for event in events]
    index = "".join(
        "{},{},{};".format(*events[min(start + layout.stripe_rows, len(events)) - 1].key)
        for start in range(0, len(events), layout.stripe_rows)
    )
    metadata = {"hive.acid.version": b"2"} | ({"hive.acid.key.index": index.encode()} if layout.key_index else {})
    _write(path, schema, lines, layout, metadata)


def write_raw(path: Path, columns: Sequence[str], rows: Sequence[Row], layout: Layout) -> None:
    """Writes a file of rows without ACID columns."""
    _write(path, row_type(columns), rows, layout, {})


def _write(path: Path, schema: str, lines: Sequence[Any], layout: Layout, metadata: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        path.open("xb") as file,
        pyorc.Writer(
            file,
            schema,
            batch_size=layout.stripe_rows,  # so that every row is with the encoder when a stripe ends
            row_index_stride=layout.stride,
            compression=pyorc.CompressionKind[layout.codec],
            dict_key_size_threshold=1.0 if layout.dictionary else 0.0,
            converters=_CONVERTERS,
        ) as writer,
    ):
        for start in range(0, len(lines), layout.stripe_rows):
            if start:
                writer.write_intermediate_footer()  # as a streaming writer's flush: ends the stripe
            writer.writerows(lines[start : start + layout.stripe_rows])
        if metadata:
            writer.set_user_metadata(**metadata)


def read_file(path: Path, length: int | None = None) -> tuple[bool, list[Any]]:
    """Returns whether a file holds events, and these or the raw rows; of its first ``length`` bytes if that is given."""
    reader = pyorc.Reader(io.BytesIO(path.read_bytes()[:length]), converters=_CONVERTERS)
    fields = list(reader.schema.fields)
    if [name.lower() for name in fields] != [*(name.lower() for name in _KEYS), "row"]:
        return False, list(reader)
    events = [
        Event(operation=line[0], key=(line[1], line[2], line[3]), current=line[4], row=line[5]) for line in reader
    ]
    return True, events


def last_keys(path: Path) -> tuple[str, str]:
    """Returns the key index that a file has, and the one that it should have."""
    with path.open("rb") as file:
        reader = pyorc.Reader(file, converters=_CONVERTERS)
        found = reader.user_metadata.get("hive.acid.key.index", b"").decode()
        wanted = ""
        for number in range(reader.num_of_stripes):
            line = list(reader.read_stripe(number))[-1]
            wanted += "{},{},{};".format(*line[1:4])
        return found, wanted


def canonical(row: Row, columns: Sequence[str]) -> Row:
    """Returns a row as values that compare equal exactly where readers show the same; columns that it lacks are None."""
    padded = (*row, *(None for _ in columns[len(row) :]))
    return tuple(_canonical(value, kind) for value, kind in zip(padded, columns, strict=True))


def _canonical(value: Any, kind: str) -> Any:
    if value is None:
        return None
    name = kind.partition("(")[0].partition("<")[0]
    match name:
        case "decimal":
            return Fraction(value)
        case "float" | "double":
            return repr(value)
        case "char":
            return value.rstrip(" ")
        case "map":
            return tuple(sorted(value.items() if isinstance(value, dict) else value))
        case "array" | "struct" | "timestamp":
            return tuple(value)
        case _:
            return value
