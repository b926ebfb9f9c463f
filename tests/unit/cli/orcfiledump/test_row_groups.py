from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.base.errors import BadFile
from compactor.cli.orcfiledump import row_groups
from compactor.cli.orcfiledump.row_groups import index_lines
from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, read_stripe_footer
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import BytesSource
from tests.support.orcfiledump import GOLDEN

SOURCE = BytesSource((GOLDEN / "samples" / "blooms.orc").read_bytes())
TAIL = read_tail(SOURCE)
TEXT, NUMBER, TIME = 2, 1, 4  #: columns with filters
ENTRY = messages.BloomFilterIndex(bloom_filter=[{"num_hash_functions": 2, "bitset": [1, 3]}])


def lines(columns: list[int], tail: Tail = TAIL) -> list[str]:
    return list(index_lines(SOURCE, tail, 0, read_stripe_footer(SOURCE, TAIL, 0), columns))


def test_columns_come_in_the_order_in_which_they_are_asked_for() -> None:
    found = [line for line in lines([5, 1, 99]) if not line.startswith("     ")]
    assert found == [
        "    Row group indices for column 5:",
        "    Row group indices for column 1:",
        "    Bloom filters for column 1:",
        "    Row group indices for column 99: not found",
        "",
    ]


def given(monkeypatch: pytest.MonkeyPatch, *indexes: tuple[int, int, messages.Message]) -> None:
    monkeypatch.setattr(row_groups, "read_indexes", lambda *_: iter(indexes))


def test_filters_over_utf_8_replace_older_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = messages.BloomFilterIndex(bloom_filter=[{"num_hash_functions": 1, "utf8bitset": b"\xff" * 8}])
    given(monkeypatch, (BLOOM_UTF8, NUMBER, newer), (BLOOM, NUMBER, ENTRY))
    text = " numHashFunctions: 1 bitCount: 64 popCount: 64 loadFactor: 1 expectedFpp: 1.0"
    assert lines([NUMBER])[-2:] == [f"      Entry 0:{text}", f"      Stripe level merge:{text}"]


@pytest.mark.parametrize(
    ("column", "version", "is_used"),
    [(TEXT, 2, False), (TEXT, 3, True), (TIME, 5, False), (TIME, 6, True), (NUMBER, 0, True)],
)
def test_filters_of_early_writers_are_not_used(
    column: int, version: int, is_used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, (BLOOM, column, ENTRY))
    found = lines([column], replace(TAIL, writer_version=version))
    text = " numHashFunctions: 2 bitCount: 128 popCount: 3 loadFactor: 0.0234 expectedFpp: 5.493164E-4"
    shown = [f"    Bloom filters for column {column}:", f"      Entry 0:{text}", f"      Stripe level merge:{text}"]
    assert found[2:] == (shown if is_used else [])


def test_filters_of_different_sizes_are_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    other = {"num_hash_functions": 2, "bitset": [1]}
    given(monkeypatch, (BLOOM, NUMBER, messages.BloomFilterIndex(bloom_filter=[ENTRY.bloom_filter[0], other])))
    with pytest.raises(BadFile, match="bloom filters of column 1 differ"):
        lines([NUMBER])


def test_an_entry_without_statistics_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    index = messages.RowIndex(entry=[{"positions": [1, 2]}])
    given(monkeypatch, (6, NUMBER, index))
    assert lines([NUMBER])[1] == "      Entry 0: no stats at  positions: 1,2"
