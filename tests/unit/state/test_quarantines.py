from __future__ import annotations

from dataclasses import replace

from compactor.compaction.quarantine_rules import Quarantined
from compactor.compaction.queue_entry import Entity
from compactor.state.state_database import OwnState

ONE = Quarantined(
    entry_id=7,
    entity=Entity(database="d", table="t", partition="p=東京"),
    location="/w/t/p=東京",
    since=1000,
    until=2000,
    bytes=1 << 40,
    names=("base_0000001", "sub/000000_0"),
)


def test_an_entry_has_one_quarantine(fresh: OwnState) -> None:
    fresh.quarantines.keep("m", replace(ONE, names=(), bytes=0))
    fresh.quarantines.keep("m", ONE)
    fresh.quarantines.keep("m", replace(ONE, entry_id=3, entity=Entity(database="d", table="t")))
    fresh.quarantines.keep("other", replace(ONE, entry_id=8))
    first, second = fresh.quarantines.all("m")
    assert (first.entry_id, first.entity.partition, second) == (3, None, ONE)


def test_it_is_forgotten_alone(fresh: OwnState) -> None:
    fresh.quarantines.keep("m", ONE)
    fresh.quarantines.keep("other", ONE)
    fresh.quarantines.forget("m", 7)
    fresh.quarantines.forget("m", 7)
    assert (fresh.quarantines.all("m"), fresh.quarantines.all("other")) == ([], [ONE])
