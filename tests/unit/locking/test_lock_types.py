"""The one order of lock requests."""

from __future__ import annotations

import itertools

import pytest

from compactor.locking.lock_types import LockRequest, LockType, compatible, conflicts, overlap, sorted_requests

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


#: Hive 4: requested type -> existing types beside which it may proceed.
MAY_PROCEED = {R: {R, W, X}, W: {R, W}, X: {R}, E: set()}


def _lock(name: str, type: LockType = W) -> LockRequest:
    database, table, partition = (*name.split("/"), None, None)[:3]
    assert database is not None
    return LockRequest(database=database, table=table, partition=partition, type=type)


@pytest.mark.parametrize(("requested", "existing"), list(itertools.product(LockType, LockType)))
def test_table_of_hive_4(requested: LockType, existing: LockType) -> None:
    assert compatible(requested, existing) is (existing in MAY_PROCEED[requested])


def test_codes_are_hives() -> None:
    assert [kind.value for kind in LockType] == ["r", "w", "x", "e"]
    assert [kind.strength for kind in LockType] == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", LockType)
def test_a_stronger_lock_excludes_all_that_a_weaker_one_does(kind: LockType) -> None:
    for stronger in LockType:
        if stronger.strength >= kind.strength:
            assert all(compatible(other, kind) for other in LockType if compatible(other, stronger))


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("db/t/p=1", "db/t/p=1", True),
        ("db/t/p=1", "db/t/p=2", False),
        ("db/t", "db/t/p=1", True),
        ("db", "db/t/p=1", True),
        ("db", "db", True),
        ("db/t", "db/u", False),
        ("db/t", "db/u/p=1", False),
        ("db/t", "other/t", False),
        ("db", "other", False),
    ],
)
def test_overlap(a: str, b: str, expected: bool) -> None:
    """A missing name covers everything below it."""
    assert overlap(_lock(a), _lock(b)) is expected
    assert overlap(_lock(b), _lock(a)) is expected


@pytest.mark.parametrize("inside", ["db/t", "db/t/p=1"])
def test_shared_read_of_a_database_and_exclusive_inside(inside: str) -> None:
    """Hive's exception, in either direction; it applies to no other pair of types."""
    for outer, inner in itertools.product(LockType, LockType):
        excepted = (outer, inner) == (R, E)
        assert overlap(_lock("db", outer), _lock(inside, inner)) is not excepted
        assert overlap(_lock(inside, inner), _lock("db", outer)) is not excepted


def test_a_shared_read_of_a_table_is_no_exception() -> None:
    assert conflicts(_lock("db/t", R), _lock("db/t/p=1", E))
    assert conflicts(_lock("db", R), _lock("db", E))


def test_conflicts() -> None:
    assert conflicts(_lock("db/t", E), _lock("db/t/p=1", R))
    assert not conflicts(_lock("db/t", R), _lock("db/t", X))
    assert not conflicts(_lock("db/t/p=1", E), _lock("db/t/p=2", E))


@pytest.mark.parametrize(("requested", "existing"), list(itertools.product(LockType, LockType)))
def test_semi_shared_is_hive_3(requested: LockType, existing: LockType) -> None:
    """There a second writer waits; all other pairs are as in Hive 4."""
    both_write = requested is W and existing is W
    assert compatible(requested, existing, semi_shared=True) is (existing in MAY_PROCEED[requested] and not both_write)
    assert conflicts(_lock("d/t", requested), _lock("d/t", existing), semi_shared=True) is not compatible(
        requested, existing, semi_shared=True
    )
