from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event, func, select

from compactor.answers.fleet import MONTH, WEEK, count_fleet, fleet, with_queue
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site, own_state
from compactor.state.state_tables import RUNS
from tests.support.tables import insert, make_table, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_compactor_delta_num_threshold="3")


def written(site: Site, warehouse: Path, name: str, deltas: int) -> Table:
    table = make_table(site, warehouse, name)
    for value in range(deltas):
        insert(site, table, [value])
    return table


def test_the_health_of_all_tables_and_the_worst_first(site: Site, warehouse: Path) -> None:
    written(site, warehouse, "bad", 6)
    written(site, warehouse, "good", 1)
    initiate(with_settings(site, compactor_mode="observe", hive_compactor_delta_num_threshold="3"))
    found = fleet(site)
    assert sum(found.health["default"].values()) == 2
    assert [one.table for one in found.worst] == ["bad", "good"]
    assert (found.worst[0].partitions, found.worst[0].deltas) == (1, 6)
    assert (found.due, found.readings.initiated, found.running) == (1, 0, ())
    assert [one.table for one in fleet(site, worst=1).worst] == ["bad"]


def test_what_was_brought_is_what_sql_says(site: Site, warehouse: Path) -> None:
    for name in ("a", "b"):
        written(site, warehouse, name, 4)
        request_compaction(site, table=f"default.{name}", type="major")
    assert fleet(site).expected_seconds is None
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    written(site, warehouse, "c", 4)
    request_compaction(site, table="default.c", type="major")
    found = fleet(site)
    sums = (func.sum(RUNS.c.DIRECTORIES_BEFORE - RUNS.c.DIRECTORIES_AFTER), func.sum(RUNS.c.SECONDS))
    with site.metastore.database.read() as conn:
        directories, seconds = conn.execute(select(*sums)).one()
    assert directories == 6
    for one, days in zip(found.returns, (WEEK, MONTH), strict=True):
        assert (one.days, one.runs, one.fewer_directories) == (days, 2, directories)
        assert one.seconds == pytest.approx(seconds)
    assert (found.readings.initiated, found.readings.ready_for_cleaning) == (1, 2)
    assert found.expected_seconds == pytest.approx(seconds / 4)  # both took the same time together
    assert sum(day.runs for day in found.days) == 2


def test_what_waits_and_runs_is_of_now_however_long_ago_the_rest_was_counted(site: Site, warehouse: Path) -> None:
    written(site, warehouse, "a", 4)
    before = count_fleet(site)
    (asked,) = request_compaction(site, table="default.a", type="major")
    assert (with_queue(site, before).readings.initiated, with_queue(site, before).running) == (1, ())
    entry = site.metastore.claims.claim("compactor-w", "1", pool_timeout_ms=0, ids=[asked.entry_id or 0])
    found = with_queue(site, before)
    assert entry is not None
    assert [one.id for one in found.running] == [entry.id]
    assert (found.readings.initiated, found.readings.working) == (0, 1)
    assert found.counted_at == before.counted_at > 0


def test_what_was_longer_ago_is_not_counted(site: Site) -> None:
    assert own_state(site).runs.days(site.name, 0) == []
    assert fleet(site).returns[0].runs == 0


def test_without_a_state_the_queue_is_told(site: Site, warehouse: Path) -> None:
    written(site, warehouse, "a", 4)
    request_compaction(site, table="default.a", type="major")
    found = fleet(replace(site, state=None))
    assert (found.readings.initiated, found.worst, found.returns) == (1, (), ())


def test_alarms_and_failures_are_told(site: Site, warehouse: Path) -> None:
    """All failures of a week are counted, and the first ones are shown."""
    written(site, warehouse, "a", 4)
    for _ in range(12):
        (asked,) = request_compaction(site, table="default.a", type="major")
        entry = site.metastore.claims.claim("compactor-w", "1", pool_timeout_ms=0, ids=[asked.entry_id or 0])
        assert entry is not None
        site.metastore.claims.finish(entry, State.FAILED, "no space")
    found = fleet(site)
    assert [one.name for one in found.alarms] == ["failed_compaction_ratio"]
    assert (found.readings.failed_lately, len(found.failures)) == (12, 10)
    told = found.to_json()
    assert told["failed"] == 12
    assert "12 of the 12 compactions" in str(told["alarms"])


def test_as_many_statements_however_many_rows_there_are(site: Site, warehouse: Path) -> None:
    def statements() -> int:
        seen: list[str] = []
        engine = site.metastore.database.engine
        event.listen(engine, "before_cursor_execute", lambda *given: seen.append(given[2]))
        fleet(site)
        return len(seen)

    def grow(names: str) -> None:
        for name in names:
            written(site, warehouse, name, 4)
            request_compaction(site, table=f"default.{name}", type="major")

    grow("a")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    grow("b")
    few = statements()
    grow("cde")
    run_entries(site, list_claimable_ids(site)[:2], InProcessRunner())
    grow("fg")
    assert statements() <= few + 1
