"""Values that a live Hive hashed (``tests/golden/bucket_hashes.json``)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

_FILE = Path(__file__).parents[1] / "golden" / "bucket_hashes.json"


@dataclass(frozen=True, slots=True)
class Hashed:
    """A value as Hive shows it, with its hashes."""

    type: str
    text: str
    first: int  #: ``hash(c)``, for bucketing_version 1
    second: int | None  #: ``murmur_hash(c)``, for bucketing_version 2; None where Hive's files disagree with it

    def __str__(self) -> str:
        return f"{self.type} {self.text}"


HASHES = [Hashed(*row) for row in json.loads(_FILE.read_text())]


def arrow_array(type_: str, texts: list[str]) -> pa.Array:
    """Returns values in the Arrow type of a Hive type."""
    name, _, arguments = type_.partition("(")
    if name == "decimal":
        precision, scale = map(int, arguments.rstrip(")").split(","))
        return pa.array([Decimal(text) for text in texts], pa.decimal128(precision, scale))
    if name == "timestamp":
        return _timestamps(texts)
    make, arrow = _MADE[name]
    return pa.array([make(text) for text in texts], arrow)


def _timestamps(texts: list[str]) -> pa.Array:
    """Returns nanoseconds where a text has them; these do not reach the year 9999."""
    unit = "ns" if any(len(text.partition(".")[2]) > 6 for text in texts) else "us"
    values = np.array([text.replace(" ", "T") for text in texts], dtype=f"datetime64[{unit}]")
    return pa.array(values.astype(np.int64)).cast(pa.timestamp(unit))


_MADE = {
    "boolean": (lambda text: text == "true", pa.bool_()),
    "tinyint": (int, pa.int8()),
    "smallint": (int, pa.int16()),
    "int": (int, pa.int32()),
    "bigint": (int, pa.int64()),
    "float": (float, pa.float32()),
    "double": (float, pa.float64()),
    "string": (str, pa.string()),
    "varchar": (str, pa.string()),
    "char": (str, pa.string()),
    "binary": (str.encode, pa.binary()),
    "date": (date.fromisoformat, pa.date32()),
}
