from __future__ import annotations

import pytest

from compactor.insight.arrivals import (
    PARTS,
    Arrival,
    Content,
    Curve,
    Looked,
    Ran,
    Recorded,
    arrivals,
    core_seconds_a_byte,
    happened,
    keeps,
)


def look(at: int, deltas: int, size: int, base: int = 0, deletes: int = 0) -> Looked:
    return Looked(at=at, content=Content(deltas=deltas, delta_bytes=size, base_bytes=base, delete_bytes=deletes))


def ran(*, major: bool, read: int, written: int, directories: int, began: int = 15) -> Ran:
    return Ran(
        began=began,
        ended=20,
        major=major,
        directories_read=directories,
        bytes_read=read,
        bytes_written=written,
        core_seconds=2.0,
    )


def test_what_is_new_at_a_look_was_written_since_the_one_before() -> None:
    recorded = Recorded(looks=[look(0, 2, 20), look(10, 5, 50, deletes=10), look(20, 5, 50, deletes=10)])
    assert arrivals(recorded) == [Arrival(at=10, deltas=3, bytes=30, delete_bytes=10)]


def test_a_major_leaves_a_base_and_what_it_merged_unseen_was_written_before() -> None:
    """Of seven directories that it read, five deltas and the base had been seen."""
    run = ran(major=True, read=170, written=160, directories=7)
    recorded = Recorded(looks=[look(10, 5, 50, base=100), look(20, 1, 8, base=160)], runs=[run])
    assert arrivals(recorded) == [Arrival(at=15, deltas=1, bytes=20), Arrival(at=20, deltas=1, bytes=8)]
    assert [content.directories for _, content in happened(recorded)] == [6, 1, 2]


def test_a_minor_leaves_one_delta_beside_the_base() -> None:
    run = ran(major=False, read=50, written=45, directories=5)
    recorded = Recorded(looks=[look(10, 5, 50, base=100)], runs=[run])
    assert arrivals(recorded) == []
    assert [content for _, content in happened(recorded)][-1] == Content(deltas=1, delta_bytes=45, base_bytes=100)


def test_a_run_that_began_before_the_first_look_is_not_counted() -> None:
    run = ran(major=True, read=1, written=1, directories=9, began=5)
    assert list(happened(Recorded(looks=[look(10, 5, 50)], runs=[run]))) == [(10, look(10, 5, 50).content)]


def test_content_after_a_compaction() -> None:
    there = Content(deltas=4, delta_bytes=40, delete_bytes=8, base_bytes=100)
    assert there.merged(major=True, keeps=0.5) == Content(base_bytes=70)
    assert there.merged(major=False, keeps=0.5) == Content(deltas=1, delta_bytes=20, delete_bytes=4, base_bytes=100)


def test_ratios_are_of_all_bytes_and_fall_back() -> None:
    runs = [ran(major=True, read=100, written=50, directories=2), ran(major=True, read=300, written=250, directories=2)]
    assert keeps(runs, {True: 1.0, False: 0.9}) == {True: 0.75, False: 0.9}
    assert core_seconds_a_byte(runs, {True: 0.0, False: 7.0}) == {True: pytest.approx(0.01), False: 7.0}


def test_each_part_has_the_mean_of_its_time() -> None:
    curve = Curve(0, 100 * PARTS)
    curve.add(2, 0, 150)
    curve.add(4, 150, 100 * PARTS)
    points = curve.points()
    assert points[:3] == [(50, 2.0), (150, 3.0), (250, 4.0)]
    assert (len(points), points[-1]) == (PARTS, (100 * PARTS - 50, 4.0))


def test_several_values_share_a_part() -> None:
    curve = Curve(1000, 1000 + PARTS)
    curve.add(1, 0, 1001)  # from before it began
    curve.add(5, 1000, 1001)
    assert curve.points() == [(pytest.approx(1000.5, abs=0.5), 3.0)]


def test_without_a_time_nothing_is_kept() -> None:
    curve = Curve()
    curve.add(1, 0, 10)
    curve.add(1, 10, 10)
    assert curve.points() == []
