from __future__ import annotations

from compactor.state.state_database import OwnState


def test_what_is_put_is_kept_beside_what_was_known(fresh: OwnState) -> None:
    kept = fresh.kept_columns("m")
    kept.put({1: {"TXN_ID": 7, "POOL_NAME": "p"}, 2: {"POOL_NAME": None}})
    kept.put({1: {"TXN_ID": None, "ERROR_MESSAGE": "東京"}})
    kept.put({})
    assert kept.get([1, 2, 3]) == {
        1: {"TXN_ID": None, "POOL_NAME": "p", "ERROR_MESSAGE": "東京"},
        2: {"POOL_NAME": None},
    }
    assert kept.get([]) == {}
    assert fresh.kept_columns("other").get([1]) == {}


def test_a_number_that_is_handed_out_again_starts_empty(fresh: OwnState) -> None:
    """A request that was not entered leaves its number to the next one, and must not leave its pool."""
    kept = fresh.kept_columns("m")
    kept.put({1: {"POOL_NAME": "p", "TXN_ID": 3}})
    kept.put({1: {"ENQUEUE_TIME": 5}}, replace=True)
    assert kept.get([1]) == {1: {"ENQUEUE_TIME": 5}}


def test_more_than_one_statement_holds(fresh: OwnState) -> None:
    kept = fresh.kept_columns("m")
    kept.put({number: {"TXN_ID": number} for number in range(2500)})
    assert kept.ids() == set(range(2500))
    assert kept.get(range(2500))[2499] == {"TXN_ID": 2499}
    kept.forget(range(1, 2500))
    assert kept.ids() == {0}
