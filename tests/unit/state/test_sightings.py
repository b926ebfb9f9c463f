from __future__ import annotations

from compactor.ids import TxnId
from compactor.state.store import State


def test_the_first_sight_stays(fresh: State) -> None:
    assert fresh.sightings.first("m", 1, TxnId(10)) == 10
    assert fresh.sightings.first("m", 1, TxnId(20)) == 10
    assert fresh.sightings.first("m", 2, TxnId(20)) == 20
    assert fresh.sightings.first("other", 1, TxnId(30)) == 30
