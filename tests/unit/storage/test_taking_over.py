"""A new file's bytes: those of ranges, and those in between."""

from __future__ import annotations

from dataclasses import replace

from compactor.storage.taking_over import KnownBytes, TakenRange, ends_of, pieces

FIRST = TakenRange(position=10, length=20, source="a", offset=100, tag="x")
SECOND = TakenRange(position=30, length=5, source="b", offset=0, tag="y")
THIRD = TakenRange(position=40, length=10, source="a", offset=7, tag="x")


def test_a_part_of_a_range_is_at_its_own_offset() -> None:
    assert FIRST.part(15, 18) == TakenRange(position=15, length=3, source="a", offset=105, tag="x")
    assert FIRST.part(10, 30) == FIRST
    ended = replace(FIRST, last=b"abcd")
    assert [ended.part(*span).last for span in ((10, 30), (28, 30), (10, 29))] == [b"abcd", b"cd", b""]


def test_the_last_bytes_of_ranges_are_known() -> None:
    assert ends_of([replace(FIRST, last=b"abcd"), SECOND]) == (KnownBytes(start=26, content=b"abcd"),)


def test_pieces_are_the_ranges_and_what_is_between_them() -> None:
    assert list(pieces([FIRST, SECOND, THIRD], 0, 60)) == [
        (0, 10, None),
        (10, 30, FIRST),
        (30, 35, SECOND),
        (35, 40, None),
        (40, 50, THIRD),
        (50, 60, None),
    ]
    assert list(pieces([FIRST, SECOND, THIRD], 29, 41)) == [
        (29, 30, FIRST.part(29, 30)),
        (30, 35, SECOND),
        (35, 40, None),
        (40, 41, THIRD.part(40, 41)),
    ]
    assert list(pieces([], 3, 5)) == [(3, 5, None)]
    assert list(pieces([FIRST], 12, 12)) == []
