"""The one order of lock requests."""

from __future__ import annotations

import itertools

import pytest

from compactor.locking.lock_requests import LockRequest, sorted_requests
from compactor.locking.lock_types import LockType

R, W, X, E = LockType


def test_requests_are_sorted_whatever_their_order() -> None:
    """Two requesters of the same objects lock in the same order, so they cannot deadlock."""
    expected = (
        LockRequest(database="a", type=R),
        LockRequest(database="a", table="t", type=R),
        LockRequest(database="a", table="t", partition="p=1", type=E),
        LockRequest(database="a", table="t", partition="p=2", type=W),
        LockRequest(database="b", table="s", type=X),
    )
    for requests in itertools.permutations(expected):
        assert sorted_requests(requests) == expected


def test_only_the_strongest_request_per_object_stays() -> None:
    requests = [LockRequest(database="a", table="t", type=kind) for kind in (R, E, W)]
    assert sorted_requests(requests) == (requests[1],)


def test_partition_needs_a_table() -> None:
    with pytest.raises(ValueError, match="the table is missing"):
        LockRequest(database="a", partition="p=1", type=R)


def test_a_request_prints_as_in_explain_locks() -> None:
    assert str(LockRequest(database="a", table="t", partition="p=1/q=2", type=X)) == "a.t.p=1/q=2 -> EXCL_WRITE"
    assert str(LockRequest(database="a", type=R)) == "a -> SHARED_READ"
