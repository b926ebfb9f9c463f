from __future__ import annotations

from dataclasses import replace

from compactor.state.entry_progress import Progress
from compactor.state.store import OwnState

ONE = Progress(entry_id=1, units=8, units_done=3, bytes=800, bytes_done=350, spent_ms=4000)


def test_the_newest_row_of_an_entry_counts(fresh: OwnState) -> None:
    rows = fresh.progress
    rows.put("m", [ONE, replace(ONE, entry_id=2)])
    rows.put("m", [replace(ONE, units_done=4)])
    rows.put("other", [replace(ONE, units_done=8)])
    rows.put("m", [])
    by_entry = rows.for_entries("m", [1, 2, 3])
    assert {number: progress.units_done for number, progress in by_entry.items()} == {1: 4, 2: 3}
    assert replace(by_entry[2], at=0) == replace(ONE, entry_id=2)
    assert by_entry[1].at > 0
    assert rows.for_entries("m", []) == {}


def test_what_has_ended_is_forgotten_and_what_was_left_is_purged(fresh: OwnState) -> None:
    rows = fresh.progress
    rows.put("m", [ONE, replace(ONE, entry_id=2), replace(ONE, entry_id=3)])
    rows.forget("m", [1])
    rows.forget("m", [])
    assert sorted(rows.for_entries("m", [1, 2, 3])) == [2, 3]
    with fresh.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPACTOR_PROGRESS SET AT = AT - 60000 WHERE ENTRY_ID = 2")
    assert rows.purge(30_000) == 1
    assert sorted(rows.for_entries("m", [1, 2, 3])) == [3]
