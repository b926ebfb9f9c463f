from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers import overview
from compactor.base.errors import BadSetting
from compactor.compaction.states import State
from compactor.requests.pause import pause
from compactor.site.site import Site
from tests.support.busy_metastore import MANY, Busy, make_busy
from tests.support.kept_tables import KeptTables
from tests.support.tables import with_settings


@pytest.fixture
def busy(deployment: Site, warehouse: Path, kept_tables: KeptTables) -> Busy:
    return kept_tables.get(deployment, warehouse, make_busy)


def tables(site: Site, **wanted: object) -> overview.Page:
    given = {"find": "", "outcome": "", "order": "health", "descending": False, "limit": 500, "offset": 0} | wanted
    return overview.tables_page(site, **given)  # type: ignore[arg-type]


def test_everything_the_page_shows(deployment: Site, busy: Busy) -> None:
    """One busy metastore for all views: it takes a while to make."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")  # else the last second's transactions block, too
    _tables(site, busy)
    _queue(site, busy)
    _history(site, busy)


def _tables(site: Site, busy: Busy) -> None:
    found = tables(site)
    assert found.total == len(found.rows) == MANY + 12
    assert found.rows[0]["figures"]["health"] == min(r["figures"]["health"] for r in found.rows if r["figures"])  # type: ignore[index, type-var]
    (carts,) = tables(site, find="carts").rows
    assert carts["queued"] == {"compactionid": busy.waiting, "state": "initiated"}
    assert tables(site, outcome="due", find="returns").total == 4
    assert tables(site, limit=7, offset=245).to_json()["total"] == MANY + 12
    assert len(tables(site, limit=7, offset=248).rows) == 4
    with pytest.raises(BadSetting):
        tables(site, order="nothing")
    assert tables(replace(site, state=None)).total == 0
    pause(site, "default.carts", "ann")
    assert [row["table"] for row in tables(site).rows if row["paused"]] == ["default.carts"]


def _queue(site: Site, busy: Busy) -> None:
    rows = {row["compactionid"]: row for row in overview.queue_page(site, find="", state=None, limit=9, offset=0).rows}
    assert len(rows) == 3
    waiting, working = rows[busy.waiting], rows[busy.working]
    assert (waiting["waits_for"], waiting["can_cancel"], waiting["working_ms"]) == ("a worker", True, None)
    assert (working["waits_for"], working["can_cancel"], working["workerhost"]) == (None, True, "node4")
    assert working["working_ms"] >= 0  # type: ignore[operator]
    (ready,) = overview.queue_page(site, find="shipments", state=State.READY_FOR_CLEANING, limit=9, offset=0).rows
    assert str(busy.blocker) in str(ready["waits_for"])
    assert ready["can_cancel"] is False


def _history(site: Site, busy: Busy) -> None:
    rows = overview.history_page(site, find="", states=None, limit=9, offset=0).rows
    assert [row["state"] for row in rows] == ["failed", "succeeded", "succeeded", "succeeded"]
    assert (rows[0]["compactionid"], rows[0]["can_retry"], rows[0]["run"]) == (busy.failed, True, None)
    run = rows[1]["run"]
    assert isinstance(run, dict)
    assert (run["directories_before"], run["directories_after"]) == (7, 1)
    assert [r["entry_id"] for r in overview.newest_runs(site, 2)] == [3, 5]
    assert overview.newest_runs(replace(site, state=None), 2) == ()


def test_a_batch_shows_its_progress(deployment: Site, busy: Busy) -> None:
    assert deployment.state is not None
    batch = deployment.state.batches.plan(deployment.name, None, "etl", [busy.waiting, 999], {})
    (row,) = overview.queue_page(deployment, find="carts", state=None, limit=9, offset=0).rows
    assert row["batch"] == {
        "batch": batch,
        "state": "planned",
        "application": None,
        "tracking_url": None,
        "log_url": None,
        "task_url": None,
        "queue": "etl",
        "entries": 2,
        "done": 1,
    }
