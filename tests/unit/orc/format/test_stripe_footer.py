"""A stripe's footer and the row indexes of its keys: intact ones of any writer pass, damaged ones are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from compactor.base.errors import BadFile
from compactor.orc.format import stripe_footer
from compactor.orc.format.stripe_footer import (
    BLOOM_UTF8,
    ROW_INDEX,
    check_key_index,
    read_indexes,
    read_stripe_footer,
)
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import BytesSource
from compactor.settings.file_limits import FileLimits
from tests.torture.anatomy import Parts, put_together, take_apart
from tests.torture.victims import rows_file
from tests.unit.orc.conftest import fixture_files

FILE = rows_file("ZLIB")


def damaged(change: Callable[[Parts], object]) -> bytes:
    parts = take_apart(FILE)
    change(parts)
    return put_together(parts)


def judge(data: bytes) -> None:
    source = BytesSource(data, "victim")
    tail = read_tail(source)
    for stripe in range(len(tail.stripes)):
        check_key_index(source, tail, stripe, read_stripe_footer(source, tail, stripe))


def test_stripes_of_every_writer_pass() -> None:
    """Hive 2, 3 and 4, Trino and ORC's C++ library."""
    assert all(judge(path.read_bytes()) is None for path in fixture_files())
    judge(FILE)


def footer(parts: Parts) -> Any:
    return parts.stripes[1].footer


def index(parts: Parts, column: int, change: Callable[[Any], object]) -> None:
    from compactor.orc.format import messages

    stripe = parts.stripes[1]
    place = next(n for n, s in enumerate(stripe.footer.streams) if s.kind == 6 and s.column == column)
    message = messages.RowIndex.FromString(parts.plain(stripe.streams[place]))
    change(message)
    stripe.streams[place] = parts.packed(message.SerializeToString())
    stripe.footer.streams[place].length = len(stripe.streams[place])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda p: setattr(footer(p).streams[0], "length", 2**63), "bytes of indexes"),
        (lambda p: setattr(footer(p).streams[0], "kind", 9), "unknown or a duplicate"),
        (lambda p: setattr(footer(p).streams[0], "column", 1000), "unknown or a duplicate"),
        (lambda p: footer(p).streams.append(footer(p).streams[0]), "unknown or a duplicate"),
        (lambda p: footer(p).columns.pop(), "encodings for"),
        (lambda p: setattr(footer(p).columns[1], "kind", 3), "column 1 .INT. has encoding 3"),
        (lambda p: index(p, 3, lambda i: i.entry.pop()), "entries for"),
        (lambda p: index(p, 3, lambda i: i.entry[0].positions.pop()), "fewer than 3 positions"),
        (lambda p: index(p, 4, lambda i: setattr(i.entry[0].statistics.int_statistics, "minimum", -5)), "contradicts"),
    ],
)
def test_a_damaged_footer_is_refused(change: Callable[[Parts], object], message: str) -> None:
    """The ORC C++ library reads beyond its memory where entries or positions of an index are missing."""
    with pytest.raises(BadFile, match=f"file victim, stripe 1: .*{message}"):
        judge(damaged(change))


def test_a_footer_that_is_not_a_message() -> None:
    tail = read_tail(BytesSource(FILE, "victim"))
    start = tail.stripes[1].end - tail.stripes[1].footer_length
    with pytest.raises(BadFile, match=r"file victim, stripe 1: .* its footer"):
        judge(FILE[:start] + b"\xff" * 5 + FILE[start + 5 :])


def test_the_index_of_a_column_is_missing() -> None:
    def drop(parts: Parts) -> None:
        stripe = parts.stripes[1]
        place = next(n for n, s in enumerate(stripe.footer.streams) if s.kind == 6 and s.column == 4)
        del stripe.streams[place], stripe.footer.streams[place]

    with pytest.raises(BadFile, match=r"file victim, stripe 1: no row index of columns \[4\]"):
        judge(damaged(drop))


def test_a_bloom_filter_with_too_many_functions() -> None:
    from compactor.orc.format import messages

    def many(parts: Parts) -> None:
        stripe = parts.stripes[1]
        place = next(n for n, s in enumerate(stripe.footer.streams) if s.kind == 8 and s.column == 2)
        message = messages.BloomFilterIndex.FromString(parts.plain(stripe.streams[place]))
        message.bloom_filter[0].num_hash_functions = 2**31
        stripe.streams[place] = parts.packed(message.SerializeToString())
        stripe.footer.streams[place].length = len(stripe.streams[place])

    with pytest.raises(BadFile, match="bloom filter of column 2 has 2147483648 functions"):
        judge(damaged(many))


def test_a_footer_or_index_has_no_more_bytes_than_its_source_allows() -> None:
    data = rows_file("ZLIB")
    source = BytesSource(data, "f")
    tail = read_tail(source)
    footer = read_stripe_footer(source, tail, 0)
    check_key_index(source, tail, 0, footer)
    limited = BytesSource(data, "f", FileLimits(footer_bytes=8))
    for read in (read_stripe_footer, lambda *given: check_key_index(*given, footer)):
        with pytest.raises(
            BadFile, match=r"f, stripe 0: its .* has .* bytes.*, at most 8 .*compactor\.file\.footer\.bytes"
        ):
            read(limited, replace(tail), 0)


def test_a_short_footer_is_read_once_until_another_one_is() -> None:
    source = BytesSource(rows_file("ZLIB"), "f")
    tail = read_tail(source)
    footer = read_stripe_footer(source, tail, 0)
    assert tail.stripes[0].footer_length <= stripe_footer.SHORT_FOOTER
    assert read_stripe_footer(BytesSource(b"", "gone"), tail, 0) is footer
    assert read_stripe_footer(source, tail, 1) != footer
    assert read_stripe_footer(source, tail, 0) == footer


@pytest.mark.parametrize("short", [0, 199_999])
def test_entries_are_counted_before_an_index_is_parsed(monkeypatch: pytest.MonkeyPatch, short: int) -> None:
    """An entry of nothing takes two bytes in a file and a hundred in memory; those of a short index are not counted."""
    monkeypatch.setattr(stripe_footer, "SHORT", short)
    parts = take_apart(rows_file("ZLIB"))
    stripe = parts.stripes[0]
    place = next(n for n, s in enumerate(stripe.footer.streams) if (s.kind, s.column) == (ROW_INDEX, 1))
    stripe.streams[place] = parts.packed(b"\x0a\0" * 100_000)
    stripe.footer.streams[place].length = len(stripe.streams[place])
    source = BytesSource(put_together(parts), "f")
    tail = read_tail(source)
    with pytest.raises(BadFile, match=r"f, stripe 0: its index of column 1 has [0-9]+ entries or more, at most"):
        check_key_index(source, tail, 0, read_stripe_footer(source, tail, 0))
    monkeypatch.setattr(stripe_footer, "SHORT", 200_000)
    with pytest.raises(BadFile) as raised:
        check_key_index(source, tail, 0, read_stripe_footer(source, tail, 0))
    assert "entries or more" not in str(raised.value)


def test_indexes_are_those_of_the_columns() -> None:
    source = BytesSource(rows_file("ZLIB"), "f")
    tail = read_tail(source)
    footer = read_stripe_footer(source, tail, 0)
    found = [(kind, column) for kind, column, _ in read_indexes(source, tail, 0, footer, {2, 4})]
    assert sorted(found) == [(kind, column) for kind in (ROW_INDEX, BLOOM_UTF8) for column in (2, 4)]
    rows, _ = [index for _, _, index in read_indexes(source, tail, 0, footer, {4})]
    assert sum(entry.statistics.number_of_values for entry in rows.entry) == tail.stripes[0].rows
