from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from compactor.compaction.claim_order import Turn, order_turns, reason_of_urgency
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State

MINUTE = 60_000


def turn(number: int, priority: int = 0, minutes: float = 0, who: str = "manual") -> Turn:
    entry = Entry(
        id=number,
        entity=Entity(database="d", table="t"),
        state=State.INITIATED,
        type=CompactionType.MAJOR,
        initiator_id=f"compactor-host-{who}",
    )
    return Turn(
        entry=entry, priority=priority, source="table", waited_ms=round(minutes * MINUTE), ageing_ms=10 * MINUTE
    )


def ids(*turns: Turn) -> list[int]:
    return [turn.entry.id for turn in order_turns(turns)]


def test_more_points_come_first_and_of_equal_ones_the_oldest() -> None:
    assert ids(turn(1), turn(2, 5), turn(3, -5), turn(4, 5)) == [2, 4, 1, 3]
    assert ids(turn(1, minutes=1), turn(2, minutes=2)) == [2, 1]


def test_waiting_adds_a_point_for_each_ageing_time() -> None:
    assert ids(turn(1, 0, minutes=49), turn(2, 5)) == [2, 1]
    assert ids(turn(1, 0, minutes=51), turn(2, 5)) == [1, 2]
    assert turn(1, 5, minutes=20).because == "7.0 points: priority 5 (table) and 20 minutes of waiting"
    assert "1 minute of waiting" in turn(1, minutes=1).because


def test_erasures_and_the_guard_of_trino_come_before_every_priority() -> None:
    assert ids(turn(1, 100, minutes=9_999), turn(2, -100, who="guard"), turn(3, -100, who="erasure")) == [2, 3, 1]
    assert "Trino" in turn(1, who="guard").because
    assert "erases" in turn(1, who="erasure").because
    assert reason_of_urgency(turn(1, who="guards").entry) is None
    assert reason_of_urgency(turn(1, who="initiator").entry) is None


@given(st.integers(-100, 100), st.lists(st.integers(-100, 100), max_size=30))
def test_nobody_waits_for_ever(priority: int, newer: list[int]) -> None:
    """After 201 times the ageing time, no request that has just been made is ahead of it."""
    patient = turn(1, priority, minutes=2_010)
    fresh = [turn(number, points) for number, points in enumerate(newer, 2)]
    assert ids(*fresh, patient)[0] == 1


@given(st.lists(st.tuples(st.integers(-100, 100), st.integers(0, 10_000)), max_size=30))
def test_time_alone_changes_no_order(turns: list[tuple[int, int]]) -> None:
    now = [turn(number, priority, minutes) for number, (priority, minutes) in enumerate(turns)]
    later = [turn(number, priority, minutes + 77) for number, (priority, minutes) in enumerate(turns)]
    assert ids(*now) == ids(*later)
