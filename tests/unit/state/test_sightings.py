from __future__ import annotations

from compactor.base.ids import TxnId
from compactor.state.sightings import KnownPlace, Sighting
from compactor.state.state_database import OwnState


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


def started(**numbers: int) -> dict[TxnId, int]:
    return {TxnId(int(name[1:])): at for name, at in numbers.items()}


def test_the_first_sight_stays_until_the_transaction_is_gone(fresh: OwnState) -> None:
    assert fresh.sightings.record_aborts("m", started(t1=10, t2=20), 100) == {1: 100, 2: 100}
    assert fresh.sightings.record_aborts("m", started(t2=20, t3=30), 200) == {2: 100, 3: 200}
    assert fresh.sightings.record_aborts("m", started(t1=10, t2=20, t3=30), 300) == {1: 300, 2: 100, 3: 200}
    assert fresh.sightings.aborts("other", started(t2=20)) == {}


def test_a_number_that_began_at_another_time_is_another_transaction(fresh: OwnState) -> None:
    fresh.sightings.record_aborts("m", started(t1=10), 100)
    assert fresh.sightings.aborts("m", started(t1=11)) == {}
    assert fresh.sightings.record_aborts("m", started(t1=11), 200) == {1: 200}
    assert fresh.sightings.aborts("m", started(t1=11, t2=20)) == {1: 200}


def test_more_than_fit_into_one_statement(fresh: OwnState) -> None:
    many = {TxnId(number): number for number in range(1, 1201)}
    assert set(fresh.sightings.record_aborts("m", many, 100).values()) == {100}
    assert fresh.sightings.aborts("m", many) == dict.fromkeys(many, 100)
    assert fresh.sightings.record_aborts("m", {}, 200) == {}
    assert fresh.sightings.aborts("m", many) == {}


def at(when: int, identity: str | None = "i") -> KnownPlace:
    return KnownPlace(identity=identity, at=when)


def test_the_last_sight_stays(fresh: OwnState) -> None:
    fresh.sightings.record_locations("m", {"/w/t": at(1), "/w/ü" * 200: at(2, None)})
    fresh.sightings.record_locations("m", {"/w/t": at(3, "other")})
    fresh.sightings.record_locations("other", {"/w/t": at(4)})
    fresh.sightings.record_locations("other", {})
    assert fresh.sightings.locations("m") == {"/w/t": at(3, "other"), "/w/ü" * 200: at(2, None)}
    assert fresh.sightings.locations("other") == {"/w/t": at(4)}


def test_what_was_not_seen_for_long_is_purged(fresh: OwnState) -> None:
    now = 10**13  # later than any database's clock
    fresh.sightings.record_locations("m", {"/old": at(1), "/new": at(now)})
    assert fresh.sightings.purge_locations(1000) == 1
    assert list(fresh.sightings.locations("m")) == ["/new"]
