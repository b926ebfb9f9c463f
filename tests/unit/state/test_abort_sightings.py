from __future__ import annotations

from compactor.base.ids import TxnId
from compactor.state.store import OwnState


def started(**numbers: int) -> dict[TxnId, int]:
    return {TxnId(int(name[1:])): at for name, at in numbers.items()}


def test_the_first_sight_stays_until_the_transaction_is_gone(fresh: OwnState) -> None:
    assert fresh.aborts.first("m", started(t1=10, t2=20), 100) == {1: 100, 2: 100}
    assert fresh.aborts.first("m", started(t2=20, t3=30), 200) == {2: 100, 3: 200}
    assert fresh.aborts.first("m", started(t1=10, t2=20, t3=30), 300) == {1: 300, 2: 100, 3: 200}
    assert fresh.aborts.known("other", started(t2=20)) == {}


def test_a_number_that_began_at_another_time_is_another_transaction(fresh: OwnState) -> None:
    fresh.aborts.first("m", started(t1=10), 100)
    assert fresh.aborts.known("m", started(t1=11)) == {}
    assert fresh.aborts.first("m", started(t1=11), 200) == {1: 200}
    assert fresh.aborts.known("m", started(t1=11, t2=20)) == {1: 200}


def test_more_than_fit_into_one_statement(fresh: OwnState) -> None:
    many = {TxnId(number): number for number in range(1, 1201)}
    assert set(fresh.aborts.first("m", many, 100).values()) == {100}
    assert fresh.aborts.known("m", many) == dict.fromkeys(many, 100)
    assert fresh.aborts.first("m", {}, 200) == {}
    assert fresh.aborts.known("m", many) == {}
