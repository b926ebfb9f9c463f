from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers.fleet import fleet
from compactor.answers.overview import queue_page
from compactor.answers.running_compactions import Running, running
from compactor.answers.show_compactions import show_compactions
from compactor.site.site import Site, own_state
from compactor.state.entry_progress import Progress
from tests.support.busy_metastore import Busy, make_busy

HALF = {"units": 4, "units_done": 2, "bytes": 1000, "bytes_done": 500}


@pytest.fixture
def busy(deployment: Site, warehouse: Path) -> Busy:
    found = make_busy(deployment, warehouse)
    state = own_state(deployment)
    batch = state.batches.plan(deployment.name, None, None, [found.working], {})
    state.batches.register(batch, "driver", 600_000)
    state.batches.describe(batch, "driver", application_id="app", tracking_url="http://spark", log_url="http://log")
    state.batches.set_task(batch, "http://airflow/dags/d/runs/r/tasks/t")
    state.batches.set_task(batch, "x" * 2000)  # too long to be kept
    state.progress.put(deployment.name, [Progress(entry_id=found.working, spent_ms=60_000, **HALF)])
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
