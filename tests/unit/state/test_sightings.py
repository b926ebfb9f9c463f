from __future__ import annotations

from compactor.base.ids import TxnId
from compactor.state.sightings import Sighting
from compactor.state.store import OwnState


def sight(newest: int, lock: int = 0) -> Sighting:
    return Sighting(newest=TxnId(newest), newest_lock=lock)


def test_the_first_sight_stays(fresh: OwnState) -> None:
    assert fresh.sightings.first("m", 1, sight(10, 3)) == sight(10, 3)
    assert fresh.sightings.first("m", 1, sight(20, 4)) == sight(10, 3)
    assert fresh.sightings.first("m", 2, sight(20)) == sight(20)
    assert fresh.sightings.first("other", 1, sight(30)) == sight(30)


def test_looking_up_a_sight_makes_none(fresh: OwnState) -> None:
    assert fresh.sightings.seen("m", 1) is None
    fresh.sightings.first("m", 1, sight(10, 3))
    assert fresh.sightings.seen("m", 1) == sight(10, 3)
    assert fresh.sightings.seen("other", 1) is None


def test_a_sighting_of_an_older_release_has_no_lock(fresh: OwnState) -> None:
    fresh.sightings.first("m", 1, sight(10, 3))
    with fresh.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPACTOR_SIGHTINGS SET NEWEST_LOCK_ID = NULL")
    assert fresh.sightings.first("m", 1, sight(20, 9)) == sight(10)
