"""Trino's rows as lines, rendered as Hive's SELECT prints them, so that they compare equal."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from compactor.metastore.catalog.values import Table
from tests.support.expected import HIVE_NULL_PARTITION, render, type_of
from tests.support.trino import Trino


def trino_lines(trino: Trino, table: Table) -> list[str]:
    """Returns every row of ``table`` as Trino reads it, sorted."""
    kinds = [column.type for column in table.columns]
    found = trino.sql(f'select * from {table.database}."{table.name}"')
    return sorted(_line(row, kinds) for row in found)


def _line(row: Sequence[Any], kinds: Sequence[str]) -> str:
    cells = [render(_plain(value, kind), kind) for value, kind in zip(row, kinds, strict=False)]
    partition = [HIVE_NULL_PARTITION if value is None else str(value) for value in row[len(kinds) :]]
    return "\t".join([*cells, *partition])


def _plain(value: Any, kind: str) -> Any:
    """Converts a value from JSON to what ``render`` takes."""
    if value is None:
        return None
    name, arguments = type_of(kind)
    match name:
        case "array":
            return [_plain(item, arguments[0]) for item in value]
        case "map":
            return {_plain(key, arguments[0]): _plain(item, arguments[1]) for key, item in value.items()}
        case "struct":
            inner = [argument.partition(":")[2] for argument in arguments]
            return [_plain(item, part) for item, part in zip(value, inner, strict=True)]
        case "binary":
            return base64.b64decode(value)
        case "float" | "double":
            return float(value)
        case "date":
            return _day(value)
        case "timestamp":
            return _timestamp(value)
        case _:
            return value


def _day(text: str) -> int:
    """Returns days since 1970-01-01; Trino's calendar has a year 0 and is proleptic Gregorian."""
    return int(np.datetime64(text, "D").astype(int))


def _timestamp(text: str) -> tuple[int, int]:
    day, clock, fraction = re.fullmatch(r"(\S+) (\d\d:\d\d:\d\d)\.?(\d*)", text).groups()  # type: ignore[union-attr]
    hours, minutes, seconds = map(int, clock.split(":"))
    return _day(day) * 86_400 + hours * 3600 + minutes * 60 + seconds, int(fraction.ljust(9, "0"))
