from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers.fleet import fleet
from compactor.answers.overview import queue_page
from compactor.answers.running_compactions import Running, running, time_left
from compactor.answers.show_compactions import show_compactions
from compactor.site.site import Site, own_state
from compactor.state.runs import Progress
from tests.support.busy_metastore import Busy, make_busy
from tests.support.kept_tables import KeptTables

HALF = {"units": 4, "units_done": 2, "bytes": 1000, "bytes_done": 500}


@pytest.fixture
def busy(deployment: Site, warehouse: Path, kept_tables: KeptTables) -> Busy:
    found = kept_tables.get(deployment, warehouse, make_busy)
    state = own_state(deployment)
    batch = state.batches.plan(deployment.name, None, None, [found.working], {})
    state.batches.register(batch, "driver", 600_000)
    state.batches.describe(batch, "driver", application_id="app", tracking_url="http://spark", log_url="http://log")
    state.batches.set_task(batch, "http://airflow/dags/d/runs/r/tasks/t")
    state.batches.set_task(batch, "x" * 2000)  # too long to be kept
    state.runs.record_progress(deployment.name, [Progress(entry_id=found.working, spent_ms=60_000, **HALF)])
    return found


def test_every_face_says_how_far_a_compaction_is_and_where_to_watch_it(deployment: Site, busy: Busy) -> None:
    (shown,) = [row for row in show_compactions(deployment) if row.compactionid == busy.working]
    assert {name: getattr(shown, name) for name in HALF} == HALF
    assert shown.left_ms is not None
    assert 30_000 < shown.left_ms <= 60_000
    watched = {
        "tracking_url": "http://spark",
        "log_url": "http://log",
        "task_url": "http://airflow/dags/d/runs/r/tasks/t",
    }
    assert {name: getattr(shown, name) for name in watched} == watched
    (of_page,) = queue_page(deployment, find="invoices", state=None, limit=9, offset=0).rows
    assert of_page["progress"] == {**HALF, **watched, "left_ms": of_page["left_ms"]}
    (of_fleet,) = fleet(deployment).to_json()["running"]  # type: ignore[misc, attr-defined]  # JSON
    assert {name: of_fleet[name] for name in HALF} == HALF
    others = [row for row in show_compactions(deployment) if row.compactionid != busy.working]
    assert [row.units for row in others] == [None] * len(others)


def test_what_an_earlier_worker_left_says_nothing_of_this_one(deployment: Site, busy: Busy) -> None:
    entry = deployment.metastore.entries.get(busy.working)
    later = replace(entry, start=deployment.metastore.now_ms() + 1000)
    assert running(deployment, [entry])[entry.id].progress is not None
    assert running(deployment, [later])[entry.id].progress is None
    assert running(replace(deployment, state=None), [entry]) == {entry.id: Running()}


def after(bytes_done: int, spent_ms: int, size: int = 1000, at: int = 50_000) -> Progress:
    return Progress(entry_id=1, units=4, units_done=0, bytes=size, bytes_done=bytes_done, spent_ms=spent_ms, at=at)


@pytest.mark.parametrize(
    ("progress", "expected_ms", "wanted"),
    [
        (after(500, 10_000), None, 10_000),
        (after(500, 10_000, at=47_000), None, 7_000),  # told three seconds ago
        (after(500, 10_000, at=10_000), None, 0),  # late: it is about to end
        (after(1000, 10_000), 99_000, 0),
        (after(500, 10_000), 99_000, 10_000),  # the pace says more than the expectation
        (after(49, 10_000), 60_000, 20_000),  # not yet
        (after(49, 10_000), None, None),
        (after(0, 10_000, size=0), 60_000, 20_000),
        (None, 60_000, 20_000),
        (None, 30_000, 0),
        (None, None, None),
    ],
)
def test_the_pace_counts_once_there_is_one(
    progress: Progress | None, expected_ms: int | None, wanted: int | None
) -> None:
    assert time_left(progress, now=50_000, began=10_000, expected_ms=expected_ms) == wanted


def test_nothing_is_said_of_what_has_no_begin() -> None:
    assert time_left(None, now=50_000, began=None, expected_ms=60_000) is None
