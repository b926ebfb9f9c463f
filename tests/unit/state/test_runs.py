from __future__ import annotations

from dataclasses import fields, replace

from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.state.runs import Progress, Run
from compactor.state.state_database import OwnState
from compactor.state.state_tables import RUNS

T, P = Entity(database="d", table="t"), Entity(database="d", table="t", partition="p=1")
RUN = Run(metastore="m", entry_id=1, entity=T, type=CompactionType.MAJOR, txn=TxnId(9), worker_id="compactor-1")


def test_every_figure_comes_back(fresh: OwnState) -> None:
    figures = [f.name for f in fields(Run) if f.name.upper() in RUNS.columns and f.default == 0]
    assert len(figures) == 14
    run = replace(RUN, **{name: number for number, name in enumerate(figures, 1)})  # type: ignore[arg-type]
    fresh.runs.add(run)
    (row,) = fresh.runs.of_entry("m", 1)
    assert replace(row, ended_at=None) == run
    assert row.ended_at is not None


def test_what_readers_took_to_open_is_told_where_it_was_measured(fresh: OwnState) -> None:
    fresh.runs.add(RUN)
    fresh.runs.add(replace(RUN, entry_id=2, opening_before=1.5, opening_after=0.25))
    assert fresh.runs.openings("m") == {2: (1.5, 0.25)}
    assert fresh.runs.openings("other") == {}
    measured, other = fresh.runs.latest("m")
    assert (measured.opening_before, measured.opening_after) == (1.5, 0.25)
    assert (other.opening_before, other.opening_after) == (None, None)


def test_newest_first_of_one_entity_or_of_all(fresh: OwnState) -> None:
    for number, entity in ((1, T), (2, P), (3, T)):
        fresh.runs.add(replace(RUN, entry_id=number, entity=entity))
    assert [run.entry_id for run in fresh.runs.latest("m")] == [3, 2, 1]
    assert [run.entry_id for run in fresh.runs.latest("m", 1)] == [3]
    assert [run.entry_id for run in fresh.runs.latest("m", entity=T)] == [3, 1]
    assert [run.entry_id for run in fresh.runs.latest("m", entity=P)] == [2]
    assert fresh.runs.latest("other") == fresh.runs.of_entry("m", 9) == []


def test_the_newest_of_each_is_asked_for_all_together(fresh: OwnState) -> None:
    for number, entity in ((1, T), (2, P), (3, T), (4, replace(P, partition="p=2"))):
        fresh.runs.add(replace(RUN, entry_id=number, entity=entity))
    fresh.runs.add(replace(RUN, entry_id=5, metastore="other"))
    runs = fresh.runs.newest_of("m", [T, P, T, Entity(database="d", table="never")])
    assert {entity: run.entry_id for entity, run in runs.items()} == {T: 3, P: 2}
    assert fresh.runs.newest_of("m", []) == {}


def test_only_old_ones_go(fresh: OwnState) -> None:
    fresh.runs.add(RUN)
    assert fresh.runs.purge(60_000) == 0
    with fresh.database.write() as conn:
        conn.execute(RUNS.update().values(ENDED_AT=1))
    assert fresh.runs.purge(60_000) == 1


ONE = Progress(entry_id=1, units=8, units_done=3, bytes=800, bytes_done=350, spent_ms=4000)


def test_the_newest_row_of_an_entry_counts(fresh: OwnState) -> None:
    runs = fresh.runs
    runs.record_progress("m", [ONE, replace(ONE, entry_id=2)])
    runs.record_progress("m", [replace(ONE, units_done=4)])
    runs.record_progress("other", [replace(ONE, units_done=8)])
    runs.record_progress("m", [])
    by_entry = runs.progress("m", [1, 2, 3])
    assert {number: progress.units_done for number, progress in by_entry.items()} == {1: 4, 2: 3}
    assert replace(by_entry[2], at=0) == replace(ONE, entry_id=2)
    assert by_entry[1].at > 0
    assert runs.progress("m", []) == {}


def test_what_has_ended_is_forgotten_and_what_was_left_is_purged(fresh: OwnState) -> None:
    runs = fresh.runs
    runs.record_progress("m", [ONE, replace(ONE, entry_id=2), replace(ONE, entry_id=3)])
    runs.forget_progress("m", [1])
    runs.forget_progress("m", [])
    assert sorted(runs.progress("m", [1, 2, 3])) == [2, 3]
    with fresh.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPACTOR_PROGRESS SET AT = AT - 60000 WHERE ENTRY_ID = 2")
    assert runs.purge_progress(30_000) == 1
    assert sorted(runs.progress("m", [1, 2, 3])) == [3]
