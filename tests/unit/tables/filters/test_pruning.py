from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given

from compactor.orc.format import messages
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.stripe_footer import BLOOM_UTF8, read_indexes, read_stripe_footer
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.format.types import OrcType, TypeKind
from compactor.orc.io.source import LocalSource
from compactor.tables.filters.binding import bind
from compactor.tables.filters.conditions import FilterColumn, Value, ValueKind, find_columns
from compactor.tables.filters.outcomes import ColumnFacts, find_outcomes
from compactor.tables.filters.pruning import FilePruner, build_lookup, long_hash, murmur3, read_facts
from tests.support import scanned
from tests.support.acid_files import TYPES
from tests.support.filters import Filter, filters
from tests.unit.tables.filters.test_evaluation import SCHEMA

ROWS = scanned.make_rows(3000)
ROW_TYPE = f"struct<{','.join(f'{name}:{kind}' for name, kind in scanned.COLUMNS.items())}>"
JAVA = empty_tail(TYPES)
KINDS = {
    "int": (ValueKind.NUMBER, pa.int64()),
    "decimal(10,2)": (ValueKind.NUMBER, pa.decimal128(10, 2)),
    "double": (ValueKind.FLOAT, pa.float64()),
    "string": (ValueKind.TEXT, pa.string()),
    "char(3)": (ValueKind.CHAR, pa.string()),
    "date": (ValueKind.DATE, pa.date32()),
    "timestamp": (ValueKind.TIMESTAMP, pa.timestamp("ns")),
}
LOOKUP_ROWS = scanned.make_rows(1000)


@pytest.fixture(scope="module")
def source() -> Iterator[LocalSource]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bucket_00000"
        scanned.write(path, ROW_TYPE, ROWS, 1, 0, ("i", "s", "d"))
        with LocalSource(path) as opened:
            yield opened


def pruner(source: LocalSource, text: str) -> FilePruner:
    condition = bind(text, SCHEMA, ["c"])
    tail = read_tail(source)
    ids = {name: 7 + place for place, name in enumerate(scanned.COLUMNS)}
    columns = {name: (column, ids[name]) for name, column in find_columns(condition).items()}
    return FilePruner(source=source, tail=tail, condition=condition, constants={}, columns=columns)


@given(one=filters())
def test_nothing_that_matches_is_left_out(source: LocalSource, one: Filter) -> None:
    """Whatever the filter, statistics and bloom filters leave out only rows for which the slow model says no."""
    found = pruner(source, one.text)
    begin = 0
    for number, stripe in enumerate(found.tail.stripes):
        meanings = [one.meaning(row) for row in ROWS[begin : begin + stripe.rows]]
        begin += stripe.rows
        assert set(meanings) <= found.of_stripe(number), one.text
        groups = found.groups(number)
        if groups is None:
            continue
        for group, kept in enumerate(groups):
            part = meanings[group * scanned.STRIDE : (group + 1) * scanned.STRIDE]
            assert kept or True not in part, one.text


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("i = 500", 1),
        ("i > 990", 1),
        ("s = 'key 0123'", 1),
        ("s like 'key 012%'", 1),
        ("s = 'key 0123x'", 0),
        ("s in ('key 0123x', 'key 0124x')", 0),
        ("d between '2026-01-20' and '2026-01-21'", 2),
        ("n < 10 and f > 300", 0),
        ("not (i < 990)", 1),
        ("not (i < 990 or s is null)", 1),
        ("t < '2026-01-01 01:00:00'", 7),  # a day is granted to writers that are not Java's
    ],
)
def test_what_is_left(source: LocalSource, text: str, groups: int) -> None:
    found = pruner(source, text)
    kept = [found.groups(number) for number in range(len(found.tail.stripes))]
    assert sum(int(mask.sum()) for mask in kept if mask is not None) == groups


@pytest.mark.parametrize(
    "text", ["i > 1000", "i = 10.5", "s < 'a'", "n > 1e30", "d = '1999-01-01'", "l is null and false"]
)
def test_a_stripe_is_left_out_by_its_statistics(source: LocalSource, text: str) -> None:
    assert True not in pruner(source, text).of_stripe(0)


def test_a_file_without_an_index_has_no_groups(source: LocalSource) -> None:
    found = pruner(source, "i = 1")
    assert replace(found, tail=replace(found.tail, row_index_stride=0)).groups(0) is None


def test_a_column_that_the_file_is_older_than_is_null(source: LocalSource) -> None:
    found = pruner(source, "i is null")
    (column, _) = found.columns["i"]
    older = replace(found, columns={"i": (column, None)})
    assert older.of_stripe(0) == {True}
    assert find_outcomes(bind("i = 1", pa.schema({"i": pa.int32()})), {}) == {True, False, None}


def test_an_index_with_less_entries_than_row_groups_leaves_nothing_out(source: LocalSource) -> None:
    """A stripe may say that it has two billion rows, in as many groups."""
    found = pruner(source, "i = 1")
    stripe, *others = found.tail.stripes
    bomb = replace(found.tail, stripes=(stripe._replace(rows=2**31 - 1), *others), row_index_stride=1)
    assert replace(found, tail=bomb).groups(0) is None


def facts(stored: str, part: messages.Message, *, rows: int = 10, table: str = "", tail: Tail = JAVA) -> ColumnFacts:
    kind, arrow = KINDS[table or stored]
    of_file: OrcType = parse_hive_type(stored)[0]
    return read_facts(part, rows, FilterColumn(name="x", kind=kind, type=arrow), of_file, tail)


def statistics(values: int = 10, *, has_null: bool = False, **fields: object) -> messages.Message:
    """Returns statistics with one field, such as ``int_statistics=dict(minimum=1, maximum=2)``."""
    made = messages.ColumnStatistics(number_of_values=values, has_null=has_null)
    for field, numbers in fields.items():
        for name, value in numbers.items():  # type: ignore[attr-defined]
            setattr(getattr(made, field), name, value)
    return made


def bounds(found: ColumnFacts) -> tuple[object, object]:
    return found.low, found.high


def test_bounds_are_in_the_values_of_the_condition() -> None:
    assert bounds(facts("int", statistics(int_statistics={"minimum": 1, "maximum": 2}))) == (1, 2)
    decimals = statistics(decimal_statistics={"minimum": b"-1.5", "maximum": b"20"})
    assert bounds(facts("decimal(10,2)", decimals)) == (Decimal("-1.5"), Decimal(20))
    texts = statistics(string_statistics={"minimum": b"a", "upper_bound": b"b"})
    assert bounds(facts("string", texts)) == (b"a", b"b")
    times = statistics(timestamp_statistics={"minimum_utc": 1000, "maximum_utc": 2000})
    assert bounds(facts("timestamp", times)) == (999_000_000, 2_001_000_000)
    day = 86_400 * 10**9
    other = replace(JAVA, writer=1)
    assert bounds(facts("timestamp", times, tail=other)) == (10**9 - day, 2 * 10**9 + day)


def test_bounds_that_cannot_be_trusted_are_unknown() -> None:
    unknown = (None, None)
    assert bounds(facts("double", statistics(double_statistics={"minimum": float("nan"), "maximum": 1.0}))) == unknown
    assert bounds(facts("date", statistics(date_statistics={"minimum": -200_000, "maximum": 1}))) == unknown
    assert bounds(facts("char(3)", statistics(string_statistics={"minimum": b"a", "maximum": b"b"}))) == unknown
    old = replace(JAVA, writer_version=0)
    assert (
        bounds(facts("string", statistics(string_statistics={"minimum": b"a", "maximum": b"b"}), tail=old)) == unknown
    )
    times = statistics(timestamp_statistics={"minimum_utc": 1000, "maximum_utc": 2000})
    assert bounds(facts("timestamp", times, tail=old)) == unknown
    assert bounds(facts("decimal(10,2)", statistics(decimal_statistics={"minimum": b"x", "maximum": b"1"}))) == unknown
    assert (
        bounds(facts("decimal(10,2)", statistics(decimal_statistics={"minimum": b"NaN", "maximum": b"1"}))) == unknown
    )
    numbers = statistics(int_statistics={"minimum": 1, "maximum": 2})
    assert bounds(facts("int", numbers, table="string")) == unknown
    assert bounds(facts("int", statistics())) == unknown


def test_nulls() -> None:
    assert not facts("int", statistics()).has_null
    assert facts("int", statistics(9)).has_null
    assert facts("int", statistics(has_null=True)).has_null
    assert not facts("int", statistics(0, has_null=True)).has_value
    assert facts("int", statistics(0)).has_value  # a writer that counts nothing


def asked(values: list[Value | None], column: int, kind: TypeKind, absent: list[Value]) -> int:
    """Checks that every row group has its values; returns how many of the absent ones some group seems to have."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bucket_00000"
        scanned.write(path, ROW_TYPE, LOOKUP_ROWS, 1, 0, ("i", "s", "d"))
        with LocalSource(path) as source:
            tail = read_tail(source)
            footer = read_stripe_footer(source, tail, 0)
            blooms = {
                stream: index.bloom_filter
                for stream, _, index in read_indexes(source, tail, 0, footer, {column})
                if stream == BLOOM_UTF8
            }[BLOOM_UTF8]
    found = 0
    for group, bloom in enumerate(blooms):
        holds = build_lookup(kind, BLOOM_UTF8, bloom)
        assert holds is not None
        part = values[group * scanned.STRIDE : (group + 1) * scanned.STRIDE]
        assert all(holds(value) for value in part if value is not None)
        found += sum(holds(value) for value in absent)
    return found


def test_every_value_is_found_and_few_others() -> None:
    numbers = [row["i"] for row in LOOKUP_ROWS]
    assert asked(numbers, 7, TypeKind.INT, list(range(5000, 5100))) < 150
    texts = [None if row["s"] is None else row["s"].encode() for row in LOOKUP_ROWS]
    assert asked(texts, 10, TypeKind.STRING, [f"other {n}".encode() for n in range(100)]) < 150


def test_what_is_hashed_otherwise_is_never_asked() -> None:
    class Bloom:
        num_hash_functions, bitset, utf8bitset = 3, (), b"\0" * 8

    assert build_lookup(TypeKind.BYTE, BLOOM_UTF8, Bloom) is None
    assert build_lookup(TypeKind.DOUBLE, BLOOM_UTF8, Bloom) is None
    assert build_lookup(TypeKind.STRING, BLOOM_UTF8 - 1, Bloom) is None
    number = build_lookup(TypeKind.INT, BLOOM_UTF8, Bloom)
    assert number is not None
    assert not number(1)
    assert number(b"1")  # a text in the table, a number in the file
    day = build_lookup(TypeKind.DATE, BLOOM_UTF8, Bloom)
    assert day is not None
    assert day(-200_000)  # the file may count it in another calendar


def test_numbers_are_shifted_with_their_sign_as_in_java() -> None:
    """``BloomFilter.getLongHash`` has ``>>`` where Thomas Wang has ``>>>``: 0 stays 0."""
    assert long_hash(0) == 0
    assert long_hash(-1) != long_hash(1)
    assert murmur3(b"12345678") != murmur3(b"1234567")
