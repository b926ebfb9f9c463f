"""Output of Hive or Trino for a fixture's step, and our rows rendered the same way, so that the lines can be compared.

Rendering follows Hive's SELECT: values by tabs, NULL as ``NULL``, char padded, nested values as JSON, floating point
as Java prints it, days before 1582-10-15 in the Julian calendar, timestamps without trailing zeros, binary as its text.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from compactor.acid.bucket import RowId
from compactor.base.ids import WriteId
from demo.metastore_dumps import parse_description

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
HIVE_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
EPOCH = datetime.date(1970, 1, 1).toordinal()
FIRST_GREGORIAN_DAY = datetime.date(1582, 10, 15).toordinal() - EPOCH

Timestamp = tuple[int, int]  #: seconds since 1970-01-01 00:00:00 (floor) and nanoseconds 0..999,999,999


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Sorted lines of ``SELECT *`` and ``SELECT ROW__ID, *``, and the table's Hive types in order.

    A line is as in the file, except that ROW__ID is a value.
    """

    rows: tuple[str, ...]
    row_ids: tuple[tuple[RowId, str], ...]
    types: tuple[str, ...]
    partition_types: tuple[str, ...]
    null_partition: str  #: how a row of the default partition prints


def steps(*sets: str) -> list[Path]:
    """Returns every step that has expected rows, ordered by name; of all sets unless some are named."""
    found = {path.parent for name in sets or ("*",) for path in FIXTURES.glob(f"{name}/*/*/expected_rowid.tsv")}
    return sorted(found, key=in_order)


def in_order(path: Path) -> list[object]:
    """Returns a sort key by which ``s10`` comes after ``s9``."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]


def step_id(path: Path) -> str:
    """Returns ``hive-4.1/f1_basic/s1_insert``: a test's id, and the argument of ``step``."""
    return "/".join(path.parts[-3:])


def by_turns(paths: Sequence[Path], *kinds: str) -> list[Any]:
    """Parameters ``path`` and ``kind``: each step with each kind. `make test` takes every second step, its kind by turns."""
    return [
        pytest.param(
            path,
            kind,
            id=f"{step_id(path)}-{kind}",
            marks=[] if turn % 2 == 0 and turn // 2 % len(kinds) == number else pytest.mark.whole,
        )
        for turn, path in enumerate(paths)
        for number, kind in enumerate(kinds)
    ]


def step(name: str) -> Path:
    """Returns the directory of ``<set>/<fixture>/<step>``."""
    path = FIXTURES / name
    assert path.is_dir(), f"{name}: no such step in {FIXTURES}"
    return path


def read_expected(path: Path) -> Expected:
    """Returns what a reader must see in a step."""
    description = parse_description((path / "describe.txt").read_text("utf-8"), str(path))
    rows = _lines(path / "expected.tsv")
    row_ids = [_row_id(line) for line in _lines(path / "expected_rowid.tsv")]
    return Expected(
        rows=tuple(sorted(rows)),
        row_ids=tuple(sorted(row_ids)),
        types=tuple(kind for _, kind in description.columns),
        partition_types=tuple(kind for _, kind in description.partition_keys),
        null_partition="NULL" if path.parts[-3].startswith("trino") else HIVE_NULL_PARTITION,
    )


def as_hive_shows(name: str) -> list[str]:
    """Returns the rows that a step's writer showed, with partitions spelled as Hive spells them."""
    expected = read_expected(step(name))
    if expected.null_partition == HIVE_NULL_PARTITION or not expected.partition_types:
        return list(expected.rows)
    count = len(expected.types)
    lines = []
    for line in expected.rows:
        cells = line.split("\t")
        spelled = [HIVE_NULL_PARTITION if cell == expected.null_partition else cell for cell in cells[count:]]
        lines.append("\t".join([*cells[:count], *spelled]))
    return lines


def _lines(path: Path) -> list[str]:
    # not splitlines(): it also breaks at characters that a value may hold
    text = path.read_text("utf-8")
    return text.removesuffix("\n").split("\n") if text else []


def _row_id(line: str) -> tuple[RowId, str]:
    text, _, rest = line.partition("\t")
    parts = json.loads(text)
    write_id = parts["writeid"] if "writeid" in parts else parts["transactionid"]  # Hive 2's name
    return RowId(WriteId(write_id), parts["bucketid"], parts["rowid"]), rest


def render_line(expected: Expected, values: Sequence[Any], partition: Sequence[str] = ()) -> str:
    """Renders one row as its line; ``partition`` holds the unescaped values of its partition as the catalog has them."""
    assert len(values) == len(expected.types), (values, expected.types)
    cells = [render(value, kind) for value, kind in zip(values, expected.types, strict=True)]
    cells += [expected.null_partition if value == HIVE_NULL_PARTITION else value for value in partition]
    return "\t".join(cells)


def difference(wanted: Iterable[object], found: Iterable[object], limit: int = 5) -> str:
    """Returns an empty text if both hold the same lines equally often, else the first few missing and surplus ones."""
    a, b = Counter(wanted), Counter(found)
    missing, surplus = list((a - b).elements()), list((b - a).elements())
    if not missing and not surplus:
        return ""
    return f"missing {len(missing)}: {missing[:limit]}; too much {len(surplus)}: {surplus[:limit]}"


def plain_rows(data: pa.RecordBatch | pa.Table | pa.StructArray) -> Iterator[tuple[Any, ...]]:
    """Yields Arrow rows as the plain values that ``render`` takes; nothing is lost on the way (timestamps keep
    nanoseconds).
    """
    if isinstance(data, pa.StructArray):
        columns = [data.field(index) for index in range(data.type.num_fields)]
    else:
        columns = list(data.columns)
    for cells in zip(*columns, strict=True):
        yield tuple(plain(cell) for cell in cells)


def plain(scalar: Any) -> Any:
    """Returns an Arrow scalar as a plain value: dates are days, timestamps ``Timestamp``, maps pairs, structs tuples."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_timestamp(kind):
        per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
        seconds, rest = divmod(scalar.value, per_second)
        return seconds, rest * (10**9 // per_second)
    if pa.types.is_date(kind):
        return scalar.value if pa.types.is_date32(kind) else scalar.value // 86_400_000
    if pa.types.is_struct(kind):
        return tuple(plain(scalar[index]) for index in range(kind.num_fields))
    if pa.types.is_map(kind):
        return [tuple(plain(part) for part in entry.values()) for entry in scalar.values]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [plain(item) for item in scalar.values]
    return scalar.as_py()


def render(value: Any, kind: str) -> str:
    """Renders a top-level value of a row, of the Hive type ``kind``, as Hive prints it."""
    if value is None:
        return "NULL"
    name, arguments = type_of(kind)
    if name in ("array", "map", "struct"):
        return _json(value, kind)
    if name == "decimal":
        scale = int(arguments[1]) if len(arguments) > 1 else 0
        return f"{decimal.Decimal(value):.{scale}f}"
    return _text(value, name, arguments)


def _text(value: Any, name: str, arguments: Sequence[str]) -> str:
    match name:
        case "boolean":
            return "true" if value else "false"
        case "float" | "double":
            return java_number(value, single=name == "float")
        case "char":
            return str(value).ljust(int(arguments[0]))
        case "binary":
            return bytes(value).decode("utf-8", "replace")
        case "date":
            return _date(value)
        case "timestamp":
            return _timestamp(value)
        case "decimal":
            text = format(decimal.Decimal(value), "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case _:
            return str(value)


def _json(value: Any, kind: str) -> str:
    """Renders a value inside a nested one (Hive's SerDeUtils.buildJSONString)."""
    if value is None:
        return "null"
    name, arguments = type_of(kind)
    if name == "array":
        return "[" + ",".join(_json(item, arguments[0]) for item in value) + "]"
    if name == "map":
        pairs = value.items() if isinstance(value, dict) else value
        return "{" + ",".join(f"{_json(k, arguments[0])}:{_json(v, arguments[1])}" for k, v in pairs) + "}"
    if name == "struct":
        parts = list(value.values()) if isinstance(value, dict) else list(value)
        fields = [argument.partition(":") for argument in arguments]
        cells = (f'"{f}":{_json(v, k)}' for (f, _, k), v in zip(fields, parts, strict=True))
        return "{" + ",".join(cells) + "}"
    text = _text(value, name, arguments)
    return _quoted(text) if name in ("string", "varchar", "char", "date", "timestamp", "binary") else text


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def type_of(kind: str) -> tuple[str, list[str]]:
    """Parses ``map<string,array<int>>`` -> ("map", ["string", "array<int>"]); ``char(6)`` -> ("char", ["6"])."""
    match = re.fullmatch(r"(\w+)(?:[<(](.*)[>)])?", kind.strip(), re.DOTALL)
    assert match, kind
    arguments, depth, start, inner = [], 0, 0, match[2] or ""
    for index, letter in enumerate(inner):
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            arguments.append(inner[start:index])
            start = index + 1
    if inner:
        arguments.append(inner[start:])
    return match[1].lower(), arguments


def _date(value: int | datetime.date) -> str:
    """Returns a calendar date as it is, or the date of the day number that a file holds."""
    if isinstance(value, datetime.date):
        return value.isoformat()
    if value >= FIRST_GREGORIAN_DAY:
        return datetime.date.fromordinal(EPOCH + value).isoformat()
    return _julian(value)


def _julian(days: int) -> str:
    """Returns a day before 1582-10-15 in the Julian calendar: Hive writes and reads files of the hybrid calendar."""
    shifted = days + 2_440_588 + 32_082  # days since March 1st of the year -4800
    year = (4 * shifted + 3) // 1461
    rest = shifted - 1461 * year // 4
    month = (5 * rest + 2) // 153
    day = rest - (153 * month + 2) // 5 + 1
    return f"{year - 4800 + month // 10:04d}-{month + 3 - 12 * (month // 10):02d}-{day:02d}"


def _timestamp(value: Timestamp | datetime.datetime) -> str:
    if isinstance(value, datetime.datetime):
        day, nanos = value.date().isoformat(), value.microsecond * 1000 + getattr(value, "nanosecond", 0)
        seconds = value.hour * 3600 + value.minute * 60 + value.second
    else:
        days, seconds = divmod(value[0], 86_400)
        day, nanos = _date(days), value[1]
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{day} {clock}" + (f".{nanos:09d}".rstrip("0") if nanos else "")


def java_number(value: float, *, single: bool = False) -> str:
    """Renders a floating-point number as ``Double.toString`` or ``Float.toString`` of Java 19 and later does."""
    number = np.float32(value) if single else np.float64(value)
    if np.isnan(number):
        return "NaN"
    if np.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign = "-" if np.signbit(number) else ""
    size = abs(number)
    if size == 0:
        return sign + "0.0"
    if 1e-3 <= size < 1e7:
        return sign + np.format_float_positional(size, unique=True, trim="0")
    digits, _, exponent = np.format_float_scientific(size, unique=True, trim="0").partition("e")
    return f"{sign}{digits}E{int(exponent)}"
