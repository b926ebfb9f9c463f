from __future__ import annotations

from compactor.state.seen_locations import KnownPlace
from compactor.state.store import OwnState


def at(when: int, identity: str | None = "i") -> KnownPlace:
    return KnownPlace(identity=identity, at=when)


def test_the_last_sight_stays(fresh: OwnState) -> None:
    fresh.places.remember("m", {"/w/t": at(1), "/w/ü" * 200: at(2, None)})
    fresh.places.remember("m", {"/w/t": at(3, "other")})
    fresh.places.remember("other", {"/w/t": at(4)})
    fresh.places.remember("other", {})
    assert fresh.places.known("m") == {"/w/t": at(3, "other"), "/w/ü" * 200: at(2, None)}
    assert fresh.places.known("other") == {"/w/t": at(4)}


def test_what_was_not_seen_for_long_is_purged(fresh: OwnState) -> None:
    now = 10**13  # later than any database's clock
    fresh.places.remember("m", {"/old": at(1), "/new": at(now)})
    assert fresh.places.purge(1000) == 1
    assert list(fresh.places.known("m")) == ["/new"]
