"""Retention of the history."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from compactor.compaction.history_retention import RetentionPolicy, choose_purged
from compactor.compaction.queue_entry import Entity, Entry
from compactor.compaction.states import CompactionType, State
from compactor.settings.precedence import Layer, Settings

DAY = 86_400_000
NOW = 100 * DAY
MAJOR, MINOR, REBALANCE = CompactionType.MAJOR, CompactionType.MINOR, CompactionType.REBALANCE
POLICY = RetentionPolicy.from_settings(Settings.of())


def _row(id: int, state: State, type_: CompactionType = MAJOR, age_days: float = 0) -> Entry:
    start = NOW - int(age_days * DAY)
    return Entry(id=id, entity=Entity(database="d", table="t"), state=state, type=type_, start=start, end=start + 5)


def test_policy() -> None:
    assert dict(POLICY.keep) == {
        State.SUCCEEDED: 3,
        State.FAILED: 3,
        State.DID_NOT_INITIATE: 2,
        State.REFUSED: 3,
        State.ABORTED: 3,
    }
    assert POLICY.timeout_ms == 7 * DAY


def test_enough_failed_rows_stay_for_the_failed_threshold() -> None:
    settings = Settings.of([Layer(name="flag", values={"hive.compactor.initiator.failed.compacts.threshold": "5"})])
    assert RetentionPolicy.from_settings(settings).keep[State.FAILED] == 5


def test_the_newest_of_each_state_stay() -> None:
    """This includes rows taken off the queue by hand, which Hive keeps forever."""
    states = (State.SUCCEEDED, State.FAILED, State.DID_NOT_INITIATE, State.REFUSED, State.ABORTED)
    rows = [_row(1 + 10 * s + number, state) for s, state in enumerate(states) for number in range(5)]
    random.Random(1).shuffle(rows)
    assert choose_purged(rows, POLICY, NOW) == (1, 2, 11, 12, 21, 22, 23, 31, 32, 41, 42)


def test_old_failures_are_purged_once_a_major_succeeded() -> None:
    rows = [
        _row(1, State.FAILED, MAJOR, 8),
        _row(2, State.REFUSED, MINOR, 8),
        _row(3, State.DID_NOT_INITIATE, MINOR, 8),
        _row(4, State.FAILED, MAJOR, 6),
        _row(5, State.ABORTED, MAJOR, 8),
        _row(6, State.SUCCEEDED, MAJOR, 5),
        _row(7, State.FAILED, MAJOR, 8),
    ]
    assert choose_purged(rows, POLICY, NOW) == (1, 2, 3)


def test_a_minor_success_clears_minor_rows_only() -> None:
    rows = [
        _row(1, State.FAILED, MAJOR, 8),
        _row(2, State.FAILED, MINOR, 8),
        _row(3, State.SUCCEEDED, MINOR, 1),
    ]
    assert choose_purged(rows, POLICY, NOW) == (2,)


def test_a_rebalance_success_clears_all() -> None:
    rows = [_row(1, State.FAILED, MAJOR, 8), _row(2, State.FAILED, MINOR, 8), _row(3, State.SUCCEEDED, REBALANCE, 1)]
    assert choose_purged(rows, POLICY, NOW) == (1, 2)


def test_without_a_success_old_failures_stay() -> None:
    assert choose_purged([_row(1, State.FAILED, MAJOR, 99)], POLICY, NOW) == ()


def test_timed_out_rows_do_not_use_up_places() -> None:
    rows = [
        _row(1, State.FAILED, MAJOR, 1),
        *(_row(n, State.FAILED, MAJOR, 9) for n in (2, 3, 4)),
        _row(5, State.SUCCEEDED),
    ]
    assert choose_purged(rows, POLICY, NOW) == (2, 3, 4)


rows_of_any_state = st.lists(
    st.builds(
        _row,
        st.integers(1, 200),
        st.sampled_from(State),
        st.sampled_from([MAJOR, MINOR]),
        st.integers(0, 20),
    ),
    unique_by=lambda row: row.id,
)


@given(rows_of_any_state)
def test_purging_twice_equals_purging_once(rows: list[Entry]) -> None:
    """DESIGN 8.6; and rows that haven't ended are never touched."""
    gone = choose_purged(rows, POLICY, NOW)
    left = [row for row in rows if row.id not in gone]
    assert choose_purged(left, POLICY, NOW) == ()
    assert all(row.state in POLICY.keep for row in rows if row.id in gone)
    for state, number in POLICY.keep.items():
        assert sum(row.state is state for row in left) <= number
