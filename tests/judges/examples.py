"""Generated tables for the judges: schemas, rows with each type's edge values, files of every writer, predicates."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.judges import PYARROW, PYORC, Predicate, Row, orc_1_5, orc_2_3
from tests.judges.values import GREGORIAN, time_nanos, time_text

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
    "date": (
        "1000-02-28",
        "1582-10-04",
        "1583-01-01",
        "1899-12-31",
        "1969-12-31",
        "1970-01-01",
        "2024-02-29",
        "9999-12-31",
    ),
    "timestamp": (
        "1000-02-28 12:00:00.000000000",
        "1582-10-03 23:59:59.000000001",
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
_INSTANT = "timestamp with local time zone"
_EDGES = {**_EDGES, _INSTANT: tuple(f"{time}Z" for time in _EDGES["timestamp"])}
_KEYS = ("int", "string", "bigint", "date")  #: of maps
#: The types that a column may have had before ALTER TABLE gave it this one; their values stay what they are.
_OLDER: Mapping[str, Sequence[str]] = {
    "smallint": ("tinyint",),
    "int": ("tinyint", "smallint"),
    "bigint": ("tinyint", "smallint", "int"),
    "double": ("float",),
    "string": ("varchar(5)",),
    "decimal(38,18)": ("decimal(10,2)",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A program that writes ORC files, and what it cannot write."""

    name: str
    write: Callable[..., None]
    codecs: Sequence[str]
    zones: Sequence[str] = ("UTC",)
    lacks: Sequence[str] = ()  #: types
    takes: Callable[[str, Any], bool] = lambda kind, value: True  #: whether the value of a type stays what it is


def _is_time(kind: str) -> bool:
    return kind.startswith("timestamp")


def _takes_java(kind: str, value: Any) -> bool:
    return not (_is_time(kind) and value.startswith("1969-12-31 23:59:59."))


def _takes_pyarrow(kind: str, value: Any) -> bool:
    """pyarrow writes negative nanoseconds before 1970, which most readers refuse."""
    return not _is_time(kind) or 0 <= time_nanos(value) < 2**63


def _java(judge: Callable[[], Any]) -> Callable[..., None]:
    def write(path: Path, schema: str, rows: Sequence[Row], *, zone: str, **options: Any) -> None:
        judge().in_zone(zone, utc=zone == "UTC").write(path, schema, rows, **options)

    return write


def _pyorc(path: Path, schema: str, rows: Sequence[Row], **options: Any) -> None:
    known = ("compress", "zone", "bloom_filter_columns", "row_index_stride")
    PYORC.write(path, schema, rows, **{name: options[name] for name in known})


def _pyarrow(
    path: Path, schema: str, rows: Sequence[Row], *, compress: str, row_index_stride: int, **more: Any
) -> None:
    PYARROW.write(path, schema, rows, compress=compress, row_index_stride=row_index_stride)


#: Settings of ORC Java under which files look like those of other releases and engines.
_SETTINGS: Sequence[Mapping[str, str]] = (
    {},
    {},
    {},
    {"orc.write.format": "0.11"},
    {"orc.create.index": "false"},
    {"orc.bloom.filter.write.version": "original"},
    {"orc.compress.size": "1024"},
    {"orc.dictionary.key.threshold": "0"},
    {"orc.write.variable.length.blocks": "true", "orc.encoding.strategy": "COMPRESSION"},
)
_OLD_CODECS = ("ZLIB", "NONE", "SNAPPY", "LZ4")
_CODECS = (*_OLD_CODECS, "ZSTD")
WRITERS: Mapping[str, Writer] = {
    writer.name: writer
    for writer in (
        Writer(
            name="ORC Java 1.5",
            write=_java(orc_1_5),
            codecs=_OLD_CODECS,
            zones=ZONES,
            lacks=(_INSTANT,),
            takes=_takes_java,
        ),
        Writer(name="ORC Java 2.3", write=_java(orc_2_3), codecs=_CODECS, zones=ZONES, takes=_takes_java),
        Writer(name="pyorc", write=_pyorc, codecs=_CODECS, lacks=("uniontype",), takes=_takes_java),
        Writer(name="pyarrow", write=_pyarrow, codecs=_CODECS, lacks=("char", "uniontype"), takes=_takes_pyarrow),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column, and the values from which its rows are drawn; older files may have it in another type, or lack it."""

    name: str
    kind: str
    values: Sequence[Any]
    older: str = ""

    def pad(self, value: Any) -> Any:
        """Returns a value of a file in the table's type: a struct's newer fields are NULL."""
        if value is None or not self.kind.startswith("struct"):
            return value
        return (*value, *(None,) * (len(_split(self.kind[7:-1])) - len(value)))


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The rows of a file, without the columns of ACID, and how they are written. ``row_type`` is the file's own."""

    bucket: int
    row_type: str
    rows: Sequence[Row]
    writer: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Directory:
    """A base, a delta, or the files from before the table was transactional.

    ``raw`` files have no ACID columns (LOAD DATA, and all files of an insert-only table).
    """

    files: Sequence[File]
    first: int = 0  #: write ID; 0 for original files
    last: int = 0
    statement: int | None = None
    is_base: bool = False
    raw: bool = False

    @property
    def name(self) -> str:
        if not self.first:
            return ""
        if self.is_base:
            return f"base_{self.last:07}"
        statement = "" if self.statement is None else f"_{self.statement:04}"
        return f"delta_{self.first:07}_{self.last:07}{statement}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Directories and delete events that are written, and then a compaction: ``major``, ``minor`` or ``rebalance``.

    ``deleted`` has the write ID that deletes the row of a number.
    """

    directories: Sequence[Directory]
    compaction: str = ""
    deleted: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A table's history. The first column of each row is its number."""

    columns: Sequence[Column]
    rounds: Sequence[Round]
    acid: bool = True
    aborted: frozenset[int] = frozenset()  #: write IDs
    predicates: Sequence[Predicate] = field(default_factory=tuple)

    @property
    def row_type(self) -> str:
        return f"struct<{','.join(f'{column.name}:{column.kind}' for column in self.columns)}>"

    @property
    def files(self) -> list[File]:
        return [file for each in self.rounds for directory in each.directories for file in directory.files]

    @property
    def times(self) -> list[str]:
        """All dates and timestamps."""
        values = [column.values for column in self.columns if "date" in column.kind or "timestamp" in column.kind]
        return re.findall(r"'(\d{4}-\d\d-\d\d(?: [0-9:.]+)?)", repr(values))

    @property
    def is_old(self) -> bool:
        """True if calendars disagree about one of its days."""
        return min(self.times, default=GREGORIAN) < GREGORIAN

    @property
    def is_early_for_trino(self) -> bool:
        """True if it has a fraction below a millisecond before 1970, which Trino shows a second earlier."""
        return any(re.search(r"\.000(?!0{6})", time) for time in self.times if time < "1970")


def is_java(writer: str) -> bool:
    return writer.startswith("ORC Java")


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
        case "timestamp" | "timestamp with local time zone":
            end = "Z" if kind == _INSTANT else ""
            seconds = st.integers(-2_000_000_000, 4_000_000_000)
            return edges | st.builds(time_text, seconds, st.sampled_from((0, 1, 1000, 120_000_000, 999_999_999))).map(
                lambda text: text + end
            )
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
    unions = st.lists(inner, min_size=1, max_size=3, unique=True).map(lambda kinds: f"uniontype<{','.join(kinds)}>")
    rare = st.one_of(inner.map("array<{}>".format), maps, st.integers(0, 3).flatmap(lambda n: maps if n else unions))
    return st.one_of(scalar, scalar, structs, rare)


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
    if outer == "uniontype":
        return st.one_of(*(st.tuples(st.just(tag), st.none() | values(part)) for tag, part in enumerate(inner)))
    entries = st.lists(st.tuples(scalars(inner[0]), st.none() | values(inner[1])), max_size=3)
    return entries.map(tuple)


@cache
def _split(text: str) -> Sequence[str]:
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
    """Returns the columns of a table; the first numbers its rows."""
    table = [Column(name="id", kind="bigint", values=[None])]
    for at, kind in enumerate(draw(st.lists(KINDS, min_size=1, max_size=4))):
        older = draw(st.sampled_from(["", *_older(kind)]))
        drawn = draw(st.lists(st.none() | values(older if older in _EDGES else kind), min_size=1, max_size=5))
        table.append(Column(name=f"c{at}", kind=kind, values=drawn, older=older))
    return table


def _older(kind: str) -> Sequence[str]:
    if kind.startswith("struct") and len(fields := _split(kind[7:-1])) > 1:
        return [f"struct<{','.join(fields[:-1])}>"]
    return _OLDER.get(kind, ())


@st.composite
def rows_of(draw: st.DrawFn, table: Sequence[Column], numbers: Iterator[int]) -> list[Row]:
    """Returns rows whose values are those of the columns; some are repeated until there are two row groups."""
    few = draw(st.lists(st.tuples(*(st.sampled_from(column.values) for column in table[1:])), min_size=1, max_size=6))
    times = 1100 // len(few) + 1 if draw(st.integers(0, 29)) == 29 else 1
    return [(next(numbers), *row) for row in [*few] * times]


def _is_taken(writer: Writer, kind: str, value: Any) -> bool:
    if value is None:
        return True
    outer, _, rest = kind.partition("<")
    if not rest:
        return writer.takes(kind, value)
    inner = _split(rest[:-1])
    match outer:
        case "struct":
            return all(
                _is_taken(writer, part.partition(":")[2], item) for part, item in zip(inner, value, strict=False)
            )
        case "array":
            return all(_is_taken(writer, inner[0], item) for item in value)
        case "uniontype":
            return _is_taken(writer, inner[value[0]], value[1])
    if writer.name == "pyorc" and len(dict(value)) < len(value):
        return False  # it keeps one entry for each key
    return all(_is_taken(writer, inner[0], key) and _is_taken(writer, inner[1], item) for key, item in value)


def writers_of(table: Sequence[Column]) -> list[Writer]:
    """Returns the writers that can write every value of a table."""
    return [
        writer
        for writer in WRITERS.values()
        if all(_is_taken(writer, column.kind, value) for column in table for value in column.values)
        and not any(kind in column.kind for kind in writer.lacks for column in table)
    ]


@st.composite
def files(draw: st.DrawFn, table: Sequence[Column], numbers: Iterator[int], bucket: int) -> File:
    """Returns a file of a table, maybe one from before its last columns were added or had their types."""
    writer = draw(st.sampled_from(writers_of(table)))
    columns, rows = list(table), draw(rows_of(table, numbers))
    if draw(st.integers(0, 3)) == 3:
        columns = columns[: draw(st.integers(1, len(columns)))]
        columns = [
            replace(column, kind=draw(st.sampled_from((column.kind, column.older or column.kind))))
            for column in columns
        ]
        rows = [
            tuple(_older_value(column.kind, value) for column, value in zip(columns, row, strict=False)) for row in rows
        ]
    names = [column.name for column in columns if "<" not in column.kind or is_java(writer.name)]
    return File(
        bucket=bucket,
        row_type=f"struct<{','.join(f'{column.name}:{column.kind}' for column in columns)}>",
        rows=rows,
        writer=writer.name,
        options={
            "compress": draw(st.sampled_from(writer.codecs)),
            "zone": draw(st.sampled_from(writer.zones)),
            "bloom_filter_columns": draw(st.lists(st.sampled_from(names), unique=True, max_size=3)),
            "stripe_rows": draw(st.sampled_from((0, 0, 1, 3) if len(rows) < 50 else (0, 1000))),
            "row_index_stride": draw(st.sampled_from((10_000, 1000))),
            "proleptic": draw(st.booleans()),
            "settings": draw(st.sampled_from(_SETTINGS)),
        },
    )


def _older_value(kind: str, value: Any) -> Any:
    return value[: len(_split(kind[7:-1]))] if kind.startswith("struct") and value is not None else value


@st.composite
def predicates(draw: st.DrawFn, table: Sequence[Column]) -> Predicate:
    """Returns a predicate on a column or a field of a struct, on values that it has and on others."""
    column = draw(st.sampled_from(table))
    name, kind, present = column.name, column.kind, [*column.values]
    if column.name == "id":
        present = list(range(4))
    elif kind.startswith("struct") and draw(st.booleans()):
        place, part = draw(st.sampled_from(list(enumerate(_split(kind[7:-1])))))
        name, kind = f"{name}.{part.partition(':')[0]}", part.partition(":")[2]
        present = [value[place] for value in present if value is not None]
    operators = ("is null",) if "<" in kind or kind == "binary" else _OPERATORS
    operator, negated = draw(st.sampled_from(operators)), draw(st.booleans())
    if operator == "is null":
        return Predicate(name, operator, (), negated)
    if operator == "<=>":
        negated = False  # ORC Java 1.5 then passes over row groups of NULLs alone, whoever wrote them
    present = [value for value in present if value is not None and value == value]
    value = st.sampled_from(present) | scalars(kind) if present else scalars(kind)
    value = value.filter(lambda literal: literal == literal)  # nobody asks for NaN
    if operator == "in":
        return Predicate(name, operator, tuple(draw(st.lists(value, min_size=1, max_size=3))), negated)
    return Predicate(name, operator, tuple(draw(value) for _ in range(1 + (operator == "between"))), negated)


_OPERATORS = ("=", "<=>", "<", "<=", "in", "between", "is null")


@st.composite
def _directories(draw: st.DrawFn, table: Sequence[Column], numbers: Iterator[int], *, acid: bool) -> list[Directory]:
    """Returns the directories of one to five transactions in their order."""

    def fill(**place: Any) -> Directory:
        raw = (
            not acid
            or place.get("first") == 0
            or (place.get("last") == place.get("first") and draw(st.integers(0, 5)) == 5)
        )
        buckets = draw(st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=not raw))
        return Directory(files=[draw(files(table, numbers, bucket)) for bucket in sorted(buckets)], raw=raw, **place)

    listed, last = [], 0
    start = draw(st.sampled_from(("nothing", "nothing", "base", "originals" if acid else "base")))
    if start == "originals":
        listed.append(fill(first=0, last=0))
    elif start == "base":
        last = draw(st.integers(1, 2))
        listed.append(fill(first=last, last=last, is_base=True))
    for _ in range(draw(st.integers(not listed, 3))):
        first = last + 2  # a rebalance has a write ID of its own
        last = first + draw(st.sampled_from((0, 0, 0, 2 * acid)))
        statements = draw(st.sampled_from(((0,), (0,), (None,), (0, 1)))) if first == last else (None,)
        listed += [fill(first=first, last=last, statement=statement) for statement in statements]
    return listed


@st.composite
def examples(draw: st.DrawFn, *, acid: bool) -> Example:
    """Returns the history of a table: rounds of writes and compactions, and what is asked before and after each."""
    table = draw(columns())
    numbers = itertools.count()
    directories = draw(_directories(table, numbers, acid=acid))
    compactions = ("major", "minor", "major", "minor", "rebalance") if acid else ("major", "minor")
    rounds, rest = [], list(directories)
    while rest:
        size = draw(st.integers(1, len(rest))) if len(rounds) < 2 else len(rest)
        while size < len(rest) and rest[size].first == rest[size - 1].first:
            size += 1  # the statements of a transaction appear together
        rounds.append(Round(directories=rest[:size], compaction=draw(st.sampled_from(compactions))))
        rest = rest[size:]
    if draw(st.booleans()):
        rounds.append(Round(directories=[], compaction=draw(st.sampled_from(compactions))))
    if acid:
        for directory in draw(st.lists(st.sampled_from(directories), max_size=4)):
            _delete(draw, rounds, directory)
    deltas = [each for each in directories if each.first and not each.is_base]
    aborted = [w for each in deltas for w in range(each.first, each.last + 1)] if draw(st.booleans()) else []
    return Example(
        columns=table,
        rounds=rounds,
        acid=acid,
        aborted=draw(st.frozensets(st.sampled_from(aborted), max_size=2)) if aborted else frozenset(),
        predicates=draw(st.lists(predicates(table), min_size=2, max_size=5)),
    )


def _delete(draw: st.DrawFn, rounds: Sequence[Round], directory: Directory) -> None:
    """Deletes a row of a directory by a transaction of its own, or by one that also inserts."""
    number = draw(st.sampled_from(draw(st.sampled_from(directory.files)).rows[:50]))[0]
    newest = max(each.last for of_round in rounds for each in of_round.directories)
    deleting = [(rounds[-1], newest + 10)]
    for of_round in rounds:
        for each in of_round.directories:
            # a directory without a statement ID hides all others of its write ID
            if directory.last <= each.first == each.last and each.statement is not None:
                deleting.append((of_round, each.first))
    if all(number not in each.deleted for each in rounds):
        of_round, write_id = draw(st.sampled_from(deleting))
        of_round.deleted[number] = write_id


def takes_arrow(table: Sequence[Column]) -> bool:
    """Tells whether a table's values can be inserted: Arrow's timestamps end in 2262."""
    arrow = Writer(name="Arrow", write=_pyarrow, codecs=(), takes=_is_in_64_bits)
    return not any(kind in column.kind for kind in (_INSTANT, "uniontype") for column in table) and all(
        _is_taken(arrow, column.kind, value) for column in table for value in column.values
    )


def _is_in_64_bits(kind: str, value: Any) -> bool:
    return not _is_time(kind) or (-(2**63) <= time_nanos(value) < 2**63 and _takes_java(kind, value))


@st.composite
def inserts(draw: st.DrawFn) -> Example:
    """Returns rows that Arrow can hold, and what is asked of the table into which they are inserted."""
    table = draw(columns().filter(takes_arrow))
    names = [column.name for column in table if "<" not in column.kind]
    options = {
        "orc.compress": draw(st.sampled_from(("ZLIB", "NONE", "SNAPPY", "ZSTD"))),
        "orc.bloom.filter.columns": ",".join(draw(st.lists(st.sampled_from(names), unique=True, max_size=3))),
    }
    rows = draw(rows_of(table, itertools.count()))
    file = File(bucket=0, row_type="", rows=rows, writer="ours", options=options)
    rounds = [Round(directories=[Directory(files=[file], first=1, last=1)])]
    return Example(columns=table, rounds=rounds, predicates=draw(st.lists(predicates(table), min_size=2, max_size=5)))
