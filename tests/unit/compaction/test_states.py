"""States of a request and their transitions."""

from __future__ import annotations

import itertools

import pytest

from compactor.base.errors import Refused
from compactor.compaction.states import (
    NEXT,
    TERMINAL,
    CompactionType,
    IllegalTransition,
    State,
    check_transition,
    parse_type,
)


def test_state_codes_and_labels_are_hives() -> None:
    assert {state.value: state.label for state in State} == {
        "i": "initiated",
        "w": "working",
        "r": "ready for cleaning",
        "s": "succeeded",
        "f": "failed",
        "a": "did not initiate",
        "c": "refused",
        "x": "aborted",
    }
    assert {kind.value: kind.label for kind in CompactionType} == {
        "a": "MAJOR",
        "i": "MINOR",
        "r": "REBALANCE",
        "c": "ABORT_CLEANUP",
        "s": "SMART_OPTIMIZE",
    }


@pytest.mark.parametrize(("current", "wanted"), list(itertools.product(State, State)))
def test_a_row_moves_only_along_the_transition_table(current: State, wanted: State) -> None:
    """DESIGN 8.4."""
    if wanted in NEXT[current]:
        check_transition(1, current, wanted)
    else:
        with pytest.raises(IllegalTransition, match=f"compaction 1: {current.label} -> {wanted.label} is not allowed"):
            check_transition(1, current, wanted)


def test_a_row_that_has_ended_stays() -> None:
    assert {State.SUCCEEDED, State.FAILED, State.DID_NOT_INITIATE, State.REFUSED, State.ABORTED} == TERMINAL


def test_every_state_of_the_queue_ends() -> None:
    """The table leaves no row stuck: an end can be reached from every state."""
    reach = {state: set(NEXT[state]) for state in State}
    for _ in State:
        for state in State:
            reach[state] |= set().union(*(reach[following] for following in reach[state]))
    assert all(reach[state] & TERMINAL for state in State if state not in TERMINAL)


def test_a_workers_result_never_goes_back_to_the_queue() -> None:
    """PROTOCOL 6: only an uncommitted row goes back to initiated."""
    assert [state for state in State if State.INITIATED in NEXT[state]] == [State.WORKING]


def test_types_in_any_case() -> None:
    assert (parse_type("Major"), parse_type(" MINOR ")) == (CompactionType.MAJOR, CompactionType.MINOR)
    with pytest.raises(Refused, match="'both': expected one of major, minor"):
        parse_type("both")
