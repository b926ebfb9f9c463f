"""Ordered operations on keys, and their net changes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.tables.writing.net_changes import compute_net_changes, find_illegal_pair, find_pairs
from compactor.tables.writing.row_change import Kind

LETTERS = {"i": Kind.INSERT, "u": Kind.UPDATE, "d": Kind.DELETE}


@pytest.mark.parametrize(
    ("operations", "must_exist", "remains"),
    [
        ("i", False, True),
        ("u", True, True),
        ("d", True, False),
        ("id", False, False),
        ("iu", False, True),
        ("di", True, True),
        ("uud", True, False),
        ("diud", True, False),
        ("idi", False, True),
    ],
)
def test_the_first_operation_says_what_is_there_and_the_last_what_remains(
    operations: str, must_exist: bool, remains: bool
) -> None:
    kinds = np.array([LETTERS[letter] for letter in operations])
    keys = np.zeros(len(operations), dtype=np.int64)
    net = compute_net_changes(kinds, keys)
    assert (net.first.tolist(), net.last.tolist()) == ([0], [len(operations) - 1])
    assert (net.must_exist.tolist(), net.remains.tolist()) == ([must_exist], [remains])
    assert find_illegal_pair(kinds, keys) is None


@pytest.mark.parametrize(("operations", "place"), [("ii", 1), ("ui", 1), ("dd", 1), ("du", 1), ("idd", 2), ("uii", 1)])
def test_an_operation_has_to_fit_the_one_before_it(operations: str, place: int) -> None:
    kinds = np.array([LETTERS[letter] for letter in operations])
    assert find_illegal_pair(kinds, np.zeros(len(operations), dtype=np.int64)) == (place - 1, place)


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(list(Kind)[1:])), max_size=30))
def test_keys_do_not_touch_each_other(operations: list[tuple[int, Kind]]) -> None:
    used = sorted({key for key, _ in operations})
    keys = np.array([used.index(key) for key, _ in operations], dtype=np.int64)
    kinds = np.array([kind for _, kind in operations], dtype=np.int64)
    net = compute_net_changes(kinds, keys)
    of_key = {key: [place for place, (one, _) in enumerate(operations) if one == key] for key in used}
    assert net.first.tolist() == [places[0] for places in of_key.values()]
    assert net.last.tolist() == [places[-1] for places in of_key.values()]
    before, after = find_pairs(keys)
    wanted = {pair for places in of_key.values() for pair in pairwise(places)}
    assert set(zip(before.tolist(), after.tolist(), strict=True)) == wanted
