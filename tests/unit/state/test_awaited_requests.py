from __future__ import annotations

from compactor.state.state_database import OwnState


def test_a_run_remembers_what_it_waits_for(fresh: OwnState) -> None:
    fresh.awaited.remember("m", "run", [2, 1])
    fresh.awaited.remember("m", "run", [2, 3])
    fresh.awaited.remember("m", "other run", [4])
    fresh.awaited.remember("other", "run", [5])
    fresh.awaited.remember("m", "run", [])
    assert fresh.awaited.list_of_run("m", "run") == [1, 2, 3]
    assert fresh.awaited.list_of_run("m", "nothing") == []


def test_old_rows_are_purged(fresh: OwnState) -> None:
    fresh.awaited.remember("m", "run", [1])
    assert fresh.awaited.purge(60_000) == 0
    assert fresh.awaited.purge(-1) == 1
    assert fresh.awaited.list_of_run("m", "run") == []
