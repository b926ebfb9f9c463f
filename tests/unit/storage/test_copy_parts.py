"""Parts of an upload: which are sent and which are copied."""

from __future__ import annotations

import random

from compactor.storage.capabilities import TakenRange
from compactor.storage.copy_parts import Part, PartLimits, plan_parts

LIMITS = PartLimits(smallest=5, sent=64, copied=100)


def taken(position: int, length: int, source: str = "a") -> TakenRange:
    return TakenRange(position=position, length=length, source=source, offset=7, tag="x")


def shown(parts: tuple[Part, ...]) -> list[tuple[int, int, bool]]:
    return [(part.start, part.end, part.taken is not None) for part in parts]


def test_what_is_too_small_takes_bytes_of_the_range_behind_it() -> None:
    found = plan_parts(70, [taken(3, 40), taken(43, 20, "b")], LIMITS)
    assert shown(found) == [(0, 5, False), (5, 43, True), (43, 63, True), (63, 70, False)]
    assert found[1].taken == TakenRange(position=5, length=38, source="a", offset=9, tag="x")
    assert found[2].taken == taken(43, 20, "b")


def test_a_range_that_is_too_small_is_sent() -> None:
    assert shown(plan_parts(30, [taken(3, 6), taken(9, 20)], LIMITS)) == [(0, 9, False), (9, 29, True), (29, 30, False)]
    assert shown(plan_parts(11, [taken(3, 6)], LIMITS)) == [(0, 11, False)]


def test_a_file_without_ranges_is_sent_and_an_empty_one_is_one_part() -> None:
    assert shown(plan_parts(100, [], LIMITS)) == [(0, 50, False), (50, 100, False)]
    assert shown(plan_parts(0, [], LIMITS)) == [(0, 0, False)]


def test_a_range_at_the_start_and_up_to_the_end() -> None:
    assert shown(plan_parts(250, [taken(0, 250)], LIMITS)) == [(0, 83, True), (83, 166, True), (166, 250, True)]


def test_too_many_parts_become_fewer_and_larger() -> None:
    ranges = [taken(3 + n * 6, 6) for n in range(100)]
    limits = PartLimits(smallest=5, sent=640, copied=640, parts=20)
    found = plan_parts(603, ranges, limits)
    assert len(found) <= 20
    assert (found[0].start, found[-1].end) == (0, 603)


def test_parts_cover_the_file_and_are_within_limits() -> None:
    for seed in range(200):
        chance = random.Random(seed)
        ranges, place = [], chance.choice([0, 3])
        for number in range(chance.randint(0, 12)):
            ranges.append(taken(place, chance.randint(1, 150), str(number)))
            place = ranges[-1].end + chance.choice([0, 0, 2, 30])
        length = place + chance.randint(0, 9)
        parts = plan_parts(length, ranges, LIMITS)
        assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
        assert parts[-1].end == length
        for part in parts[:-1]:
            assert part.end - part.start >= 5
        for part in parts:
            assert part.end - part.start <= (64 if part.taken is None else 100)
            if part.taken is not None:
                (whole,) = [range_ for range_ in ranges if range_.source == part.taken.source]
                assert part.taken == whole.part(part.start, part.end)
