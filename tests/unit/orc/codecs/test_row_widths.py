"""Rows decoded at once are bounded by what streams hold, whatever statistics say."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pytest

from compactor.base.errors import BadFile
from compactor.orc.codecs import row_widths, stripe_view
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Unfit
from compactor.orc.codecs.row_widths import RowWidths, flat_bytes
from compactor.orc.codecs.stripe_view import joint_file
from compactor.orc.format import messages
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.length_checks import Lengths, check_lengths
from compactor.orc.format.plain_streams import PlainStream, plain_streams
from compactor.orc.format.stripe_footer import DATA, DICTIONARY_V2, DIRECT_V2, read_stripe_footer
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import BytesSource
from tests.support import bombs


def widths(row: str, lengths: Mapping[int, Lengths], *, kind: int = DIRECT_V2, data: int = 0) -> RowWidths:
    types = parse_hive_type(row)
    footer = messages.StripeFooter()
    for _ in types:
        footer.columns.add(kind=kind)
    streams = [PlainStream(DATA, column, data, []) for column in lengths if data]
    return RowWidths(types=types, footer=footer, lengths=lengths, streams=streams)


@pytest.mark.parametrize(
    ("row", "lengths", "more", "wanted"),
    [
        ("struct<a:int,b:timestamp>", {}, {}, 100 * 24),
        ("struct<a:string>", {1: Lengths(2, 50, 40)}, {"kind": DICTIONARY_V2}, 100 * 48),
        ("struct<a:string>", {1: Lengths(100, 500, 40)}, {"data": 450}, 100 * 8 + 450),
        ("struct<a:string>", {1: Lengths(100, 9000, 2)}, {"data": 9000}, 100 * 8 + 200),
        ("struct<a:array<bigint>>", {1: Lengths(100, 1000, 90)}, {}, 100 * 8 + 1000 * 8),
        ("struct<a:struct<b:map<int,int>>>", {2: Lengths(100, 9999, 3)}, {}, 100 * 16 + 2 * 300 * 8),
    ],
)
def test_a_width_is_the_most_that_rows_can_take(
    row: str, lengths: Mapping[int, Lengths], more: dict[str, Any], wanted: int
) -> None:
    found = widths(row, lengths, **more)
    assert found.bytes_of(found.types[0].children, 100) == wanted


def test_an_estimate_that_is_too_much_is_made_exact() -> None:
    """Encoders store lengths in whole bytes: a text of 300 bytes may seem to have 65,535."""
    file = io.BytesIO()
    po.write_table(pa.table({"a": ["x" * 300, "y" * 299]}), file, dictionary_key_size_threshold=1.0)
    source = BytesSource(file.getvalue())
    tail = read_tail(source)
    stripe = read_stripe_footer(source, tail, 0)
    streams = plain_streams(source, tail, 0, stripe, range(2))
    lengths = check_lengths(streams, stripe, tail, 0)
    assert lengths[1].longest == 65_535
    found = RowWidths(types=tail.types, footer=stripe, streams=streams, lengths=lengths)
    assert (found.bytes_of([1], 1), found.bytes_of([1], 1000)) == (65_543, 308_000)
    assert found.rows_within([1], 65_536) == 65_536


def test_rows_are_halved_until_they_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_widths, "MOST_BYTES", 1000)
    found = widths("struct<a:string>", {1: Lengths(1, 92, 92)}, kind=DICTIONARY_V2)
    assert [found.rows_within([1], rows) for rows in (1, 10, 11, 65_536)] == [1, 10, 5, 8]


@pytest.mark.parametrize("codec", [ARROW, PYORC], ids=["arrow", "pyorc"])
def test_a_long_text_in_a_dictionary_makes_short_batches(codec: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 2.4: statistics that say that texts are short change nothing about it."""
    monkeypatch.setattr(row_widths, "MOST_BYTES", 1 << 20)
    source = BytesSource(bombs.long_dictionary(rows=500, length=50_000))
    rows = [batch.num_rows for batch in codec.read_batches(source, read_tail(source))]
    assert (sum(rows), max(rows) <= 20) == (500, True)


def test_one_row_that_cannot_be_decoded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stripe_view, "MOST_ROW_BYTES", 10_000)
    source = BytesSource(bombs.long_lists(1 << 20), "f")
    with pytest.raises(BadFile, match=r"file f, stripe 0: one of its rows takes [0-9]+ bytes, at most 10000"):
        list(ARROW.read_batches(source, read_tail(source)))


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_BUFFERS"])
def test_stripes_that_take_much_are_not_decoded_together(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = BytesSource(bombs.long_blocks(4))
    stripes = [(source, read_tail(source), 0)] * 2
    assert joint_file(stripes)
    monkeypatch.setattr(stripe_view, limit, 50)
    with pytest.raises(Unfit):
        joint_file(stripes)


@pytest.mark.parametrize("kind", [DIRECT_V2, DICTIONARY_V2])
def test_the_quick_bound_of_flat_rows_is_never_below_the_exact_one(kind: int) -> None:
    row = "struct<a:int,b:string,c:timestamp,d:decimal(30,2),e:struct<f:binary,g:double>>"
    lengths = {2: Lengths(number=7, total=900, longest=300), 6: Lengths(number=7, total=80, longest=40)}
    made = widths(row, lengths, kind=kind, data=900)
    quick = flat_bytes(made.types, lengths, 7)
    assert quick is not None
    assert quick >= made.bytes_of(made.types[0].children, 7) > 900


@pytest.mark.parametrize("row", ["struct<a:array<int>>", "struct<a:struct<b:map<int,string>>>"])
def test_there_is_no_quick_bound_where_a_row_has_many_values(row: str) -> None:
    assert flat_bytes(parse_hive_type(row), {}, 1) is None
