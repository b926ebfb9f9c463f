"""Generated tables for the judges: schemas, rows with each type's edge values, files of every writer, predicates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.judges import PYARROW, PYORC, Predicate, Row, orc_1_5, orc_2_3
from tests.judges.values import time_nanos, time_text

NAN, INFINITY = float("nan"), float("inf")
#: Rules of Java and tzdata differ for each of them somewhere before 1970; GMT+08:00 is known to Java alone.
ZONES = ("UTC", "Europe/Paris", "Asia/Singapore", "America/New_York", "Asia/Kolkata", "GMT+08:00")
_LONG = "long " * 220  #: longer than the 1,024 bytes that statistics of some writers hold

_EDGES: Mapping[str, Sequence[Any]] = {
    "boolean": (False, True),
    "tinyint": (-128, -1, 0, 1, 127),
    "smallint": (-32768, -1, 0, 1, 32767),
    "int": (-(2**31), -1, 0, 1, 2**31 - 1),
    "bigint": (-(2**63), -(2**53) - 1, -1, 0, 1, 2**53 + 1, 2**63 - 1),
    "float": (0.0, -0.0, 1.0, -1.5, float(np.float32(0.1)), 3.4028234663852886e38, 2.0**-149, INFINITY, -INFINITY, NAN),
    "double": (0.0, -0.0, 1.0, -1.5, 0.1, 1.7976931348623157e308, 5e-324, INFINITY, -INFINITY, NAN),
    "string": ("", "a", "a ", "b\0c", "é", "漢字", "\uffff", "🎉", "z" * 40, _LONG, _LONG + "a"),
    "varchar(5)": ("", "a", "a ", "漢字漢字漢", "🎉", "zzzzz"),
    "char(4)": ("", "a", "ab c", "漢字", "🎉", "zzzz"),
    "binary": (b"", b"\0", b"a", b"\xff\xfe", b"x" * 40),
    "decimal(10,2)": tuple(map(Decimal, ("0", "0.01", "-0.01", "1.5", "-99999999.99", "99999999.99"))),
    "decimal(18,0)": tuple(map(Decimal, ("0", "1", "-1", "9" * 18, "-" + "9" * 18))),
    "decimal(38,18)": tuple(
        map(Decimal, ("0", "0.000000000000000001", "1.5", "-" + "9" * 20 + "." + "9" * 18, "9" * 20 + "." + "9" * 18))
    ),
    "date": ("1583-01-01", "1899-12-31", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-31"),
    "timestamp": (
        "1583-01-01 00:00:00.000000000",
        "1900-01-01 00:00:00.000000000",
        "1911-03-11 00:04:30.500000000",
        "1942-09-01 12:00:00.000001000",
        "1969-12-31 23:59:58.999999999",
        "1970-01-01 00:00:00.000000000",
        "1970-01-01 00:00:00.000000001",
        "2015-01-01 00:00:00.000000000",
        "2024-03-31 01:30:00.123456789",
        "2024-07-01 12:00:00.100000000",
        "2037-12-31 23:59:59.999000000",
        "9999-12-31 23:59:59.999999000",
    ),
}
_KEYS = ("int", "string", "bigint", "date")  #: of maps


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A program that writes ORC files, and what it cannot write."""

    name: str
    write: Callable[..., None]
    codecs: Sequence[str]
    zones: Sequence[str] = ("UTC",)
    takes: Callable[[str, Any], bool] = lambda kind, value: True  #: whether the value of a type stays what it is


def _takes_java(kind: str, value: Any) -> bool:
    return not (kind == "timestamp" and value.startswith("1969-12-31 23:59:59."))


def _takes_pyarrow(kind: str, value: Any) -> bool:
    """pyarrow writes negative nanoseconds before 1970, which most readers refuse, and no char or varchar."""
    if kind == "timestamp":
        return 0 <= time_nanos(value) < 2**63
    return not kind.startswith(("char", "varchar"))


def _java(judge: Callable[[], Any]) -> Callable[..., None]:
    def write(path: Path, schema: str, rows: Sequence[Row], *, zone: str, **options: Any) -> None:
        judge().in_zone(zone, utc=zone == "UTC").write(path, schema, rows, **options)

    return write


def _pyorc(path: Path, schema: str, rows: Sequence[Row], *, stripe_rows: int, proleptic: bool, **options: Any) -> None:
    PYORC.write(path, schema, rows, **options)


def _pyarrow(
    path: Path, schema: str, rows: Sequence[Row], *, compress: str, row_index_stride: int, **more: Any
) -> None:
    PYARROW.write(path, schema, rows, compress=compress, row_index_stride=row_index_stride)


_JAVA_CODECS = ("ZLIB", "NONE", "SNAPPY", "LZ4")
WRITERS: Mapping[str, Writer] = {
    writer.name: writer
    for writer in (
        Writer(name="ORC Java 1.5", write=_java(orc_1_5), codecs=_JAVA_CODECS, zones=ZONES, takes=_takes_java),
        Writer(
            name="ORC Java 2.3", write=_java(orc_2_3), codecs=(*_JAVA_CODECS, "ZSTD"), zones=ZONES, takes=_takes_java
        ),
        Writer(name="pyorc", write=_pyorc, codecs=(*_JAVA_CODECS, "ZSTD"), takes=_takes_java),
        Writer(name="pyarrow", write=_pyarrow, codecs=(*_JAVA_CODECS, "ZSTD"), takes=_takes_pyarrow),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column, and the values from which its rows are drawn."""

    name: str
    kind: str
    values: Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The rows of a file, without the columns of ACID, and how they are written."""

    few: Sequence[Row]
    times: int  #: how often the file repeats these rows
    writer: str
    options: Mapping[str, Any]

    @property
    def rows(self) -> list[Row]:
        return [*self.few] * self.times


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """Files of one table, the rows to delete (by the number of their file and of the row), and predicates."""

    columns: Sequence[Column]
    files: Sequence[File]
    deleted: frozenset[tuple[int, int]] = frozenset()
    predicates: Sequence[Predicate] = field(default_factory=tuple)

    @property
    def row_type(self) -> str:
        return f"struct<{','.join(f'{column.name}:{column.kind}' for column in self.columns)}>"


@cache
def scalars(kind: str) -> st.SearchStrategy[Any]:
    """Returns values of a type that is not nested: one of its edges, or any other."""
    edges = st.sampled_from(_EDGES[kind])
    match kind:
        case "float" | "double":
            return edges | st.floats(width=32 if kind == "float" else 64)
        case "int" | "bigint":
            bits = 31 if kind == "int" else 63
            return edges | st.integers(-(2**bits), 2**bits - 1)
        case "string":
            return edges | st.text(st.characters(codec="utf-8"), max_size=6)
        case "timestamp":
            seconds = st.integers(-2_000_000_000, 4_000_000_000)
            return edges | st.builds(time_text, seconds, st.sampled_from((0, 1, 1000, 120_000_000, 999_999_999)))
    return edges


def _kinds(depth: int) -> st.SearchStrategy[str]:
    scalar = st.sampled_from(list(_EDGES))
    if not depth:
        return scalar
    inner = _kinds(depth - 1)
    structs = st.lists(inner, min_size=1, max_size=3).map(
        lambda kinds: f"struct<{','.join(f'f{at}:{kind}' for at, kind in enumerate(kinds))}>"
    )
    maps = st.builds("map<{},{}>".format, st.sampled_from(_KEYS), inner)
    return st.one_of(scalar, scalar, structs, inner.map("array<{}>".format), maps)


KINDS = _kinds(2)


@cache
def values(kind: str) -> st.SearchStrategy[Any]:
    """Returns values of any type; those within nested ones may be None."""
    if kind in _EDGES:
        return scalars(kind)
    outer, _, rest = kind.partition("<")
    inner = _split(rest[:-1])
    if outer == "struct":
        return st.tuples(*(st.none() | values(part.partition(":")[2]) for part in inner))
    if outer == "array":
        return st.lists(st.none() | values(inner[0]), max_size=3).map(tuple)
    entries = st.dictionaries(scalars(inner[0]), st.none() | values(inner[1]), max_size=3)
    return entries.map(lambda pairs: tuple(pairs.items()))


def _split(text: str) -> list[str]:
    """Returns the parts of a text between commas that are in no brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(character, 0)
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


@st.composite
def columns(draw: st.DrawFn) -> list[Column]:
    """Returns the columns of a table."""
    kinds = draw(st.lists(KINDS, min_size=1, max_size=4))
    return [
        Column(name=f"c{at}", kind=kind, values=draw(st.lists(st.none() | values(kind), min_size=1, max_size=5)))
        for at, kind in enumerate(kinds)
    ]


@st.composite
def rows_of(draw: st.DrawFn, table: Sequence[Column]) -> tuple[list[Row], int]:
    """Returns rows whose values are those of the columns, and how often they are repeated: in some until there are two row
    groups."""
    few = draw(st.lists(st.tuples(*(st.sampled_from(column.values) for column in table)), min_size=1, max_size=6))
    return few, 1100 // len(few) + 1 if draw(st.integers(0, 19)) == 19 else 1


def _is_taken(writer: Writer, kind: str, value: Any) -> bool:
    if value is None:
        return True
    outer, _, rest = kind.partition("<")
    if not rest:
        return writer.takes(kind, value)
    inner = _split(rest[:-1])
    match outer:
        case "struct":
            return all(_is_taken(writer, part.partition(":")[2], item) for part, item in zip(inner, value, strict=True))
        case "array":
            return all(_is_taken(writer, inner[0], item) for item in value)
    return all(_is_taken(writer, inner[0], key) and _is_taken(writer, inner[1], item) for key, item in value)


def writers_of(table: Sequence[Column]) -> list[Writer]:
    """Returns the writers that can write every value of a table."""
    return [
        writer
        for writer in WRITERS.values()
        if all(_is_taken(writer, column.kind, value) for column in table for value in column.values)
        and not (writer.name == "pyarrow" and any("char" in column.kind for column in table))
    ]


@st.composite
def files(draw: st.DrawFn, table: Sequence[Column]) -> File:
    """Returns a file of a table."""
    writer = draw(st.sampled_from(writers_of(table)))
    names = [column.name for column in table if "<" not in column.kind]
    few, times = draw(rows_of(table))
    return File(
        few=few,
        times=times,
        writer=writer.name,
        options={
            "compress": draw(st.sampled_from(writer.codecs)),
            "zone": draw(st.sampled_from(writer.zones)),
            "bloom_filter_columns": draw(st.lists(st.sampled_from(names), unique=True)) if names else [],
            "stripe_rows": draw(st.sampled_from((0, 0, 1, 3, 1000))),
            "row_index_stride": draw(st.sampled_from((10_000, 1000))),
            "proleptic": draw(st.booleans()),
        },
    )


@st.composite
def predicates(draw: st.DrawFn, table: Sequence[Column]) -> Predicate:
    """Returns a predicate on one of a table's columns, on values that it has and on others."""
    column = draw(st.sampled_from(table))
    operators = ("is null",) if "<" in column.kind or column.kind == "binary" else _OPERATORS
    operator, negated = draw(st.sampled_from(operators)), draw(st.booleans())
    if operator == "is null":
        return Predicate(column.name, operator, (), negated)
    if operator == "<=>":
        negated = False  # ORC Java 1.5 then passes over row groups of NULLs alone, whoever wrote them
    present = [value for value in column.values if value is not None and value == value]
    value = st.sampled_from(present) | scalars(column.kind) if present else scalars(column.kind)
    value = value.filter(lambda literal: literal == literal)  # nobody asks for NaN
    if operator == "in":
        return Predicate(column.name, operator, tuple(draw(st.lists(value, min_size=1, max_size=3))), negated)
    return Predicate(column.name, operator, tuple(draw(value) for _ in range(1 + (operator == "between"))), negated)


_OPERATORS = ("=", "<=>", "<", "<=", "in", "between", "is null")


@st.composite
def examples(draw: st.DrawFn) -> Example:
    """Returns one to four files of one table, and what is asked of them."""
    table = draw(columns())
    written = draw(st.lists(files(table), min_size=1, max_size=4))
    rows = [(at, row) for at, file in enumerate(written) for row in range(min(len(file.rows), 50))]
    return Example(
        columns=table,
        files=written,
        deleted=draw(st.frozensets(st.sampled_from(rows), max_size=4)),
        predicates=draw(st.lists(predicates(table), min_size=2, max_size=5)),
    )


def takes_arrow(table: Sequence[Column]) -> bool:
    """Tells whether Arrow has all values of a table: its timestamps end in 2262."""
    arrow = Writer(name="Arrow", write=_pyarrow, codecs=(), takes=lambda kind, value: _is_in_64_bits(kind, value))
    return all(_is_taken(arrow, column.kind, value) for column in table for value in column.values)


def _is_in_64_bits(kind: str, value: Any) -> bool:
    return kind != "timestamp" or (-(2**63) <= time_nanos(value) < 2**63 and _takes_java(kind, value))


@st.composite
def inserts(draw: st.DrawFn) -> Example:
    """Returns rows that Arrow can hold, and what is asked of the table into which they are inserted."""
    table = draw(columns().filter(takes_arrow))
    names = [column.name for column in table if "<" not in column.kind]
    options = {
        "orc.compress": draw(st.sampled_from(("ZLIB", "NONE", "SNAPPY", "ZSTD"))),
        "orc.bloom.filter.columns": ",".join(draw(st.lists(st.sampled_from(names), unique=True)) if names else []),
    }
    few, times = draw(rows_of(table))
    file = File(few=few, times=times, writer="ours", options=options)
    return Example(columns=table, files=[file], predicates=draw(st.lists(predicates(table), min_size=2, max_size=5)))
