from __future__ import annotations

import tempfile
from pathlib import Path

from compactor.orc.format.stripe_footer import BLOOM_UTF8, read_indexes, read_stripe_footer
from compactor.orc.format.tail import read_tail
from compactor.orc.format.types import TypeKind
from compactor.orc.io.source import LocalSource
from compactor.tables.filters.bloom_lookup import build_lookup, long_hash, murmur3
from compactor.tables.filters.conditions import Value
from tests.support import scanned
from tests.unit.tables.filters.test_pruning import ROW_TYPE

ROWS = scanned.rows(1000)


def asked(values: list[Value | None], column: int, kind: TypeKind, absent: list[Value]) -> int:
    """Checks that every row group has its values; returns how many of the absent ones some group seems to have."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bucket_00000"
        scanned.write(path, ROW_TYPE, ROWS, 1, 0, ("i", "s", "d"))
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
    numbers = [row["i"] for row in ROWS]
    assert asked(numbers, 7, TypeKind.INT, list(range(5000, 5100))) < 150
    texts = [None if row["s"] is None else row["s"].encode() for row in ROWS]
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
