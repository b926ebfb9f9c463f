"""Requests that may do only so much, from the request to the next one (the rules of cutting: rewrite/test_chunks.py)."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from compactor.answers.explain import explain
from compactor.answers.preview import preview
from compactor.answers.show_compactions import show_history
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import CompactionType, State
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.worker.bounded_requests import bound_of
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options
from tests.support.passes import clean_all, compact
from tests.support.tables import entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import names_in

EIGHT = range(0, 80, 10)


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for start in EIGHT:
        insert(site, table, range(start, start + 10))
    return table


def delta_bytes(table: Table) -> int:
    """Of the largest of the eight, which differ by a few bytes."""
    deltas = Path(table.location).glob("delta_*")
    return max(sum(file.stat().st_size for file in delta.glob("bucket_*")) for delta in deltas)


def asked(site: Site, kind: str = "minor", **properties: str) -> Outcome:
    """The outcome of a request with these properties (underscores for dots), of it alone."""
    given = {name.replace("_", "."): value for name, value in properties.items()}
    request_compaction(site, table="default.t", type=kind, properties=given)
    return once(site)


def once(site: Site, options: Options | None = None) -> Outcome:
    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner(), options).outcomes
    return outcome


def deltas(table: Table) -> list[str]:
    return sorted(name.partition("_v")[0] for name in names_in(Path(table.location)) if not name.startswith("."))


def test_a_request_bounded_in_bytes_asks_anew_for_what_it_leaves(
    site: Site, table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = rows_of(site, table)
    bound = str(3 * delta_bytes(table))
    with caplog.at_level(logging.INFO):
        first = asked(site, compactor_max_bytes=bound)
    assert (first.result, first.left.deltas, len(first.output)) == (Result.COMPACTED, 5, 1)
    assert f"compactor.max.bytes; 5 deltas, {first.left.bytes} bytes left" in caplog.text
    (waiting,) = site.metastore.entries.queue(states=(State.INITIATED,))
    assert (waiting.type, waiting.properties) == (CompactionType.MINOR, {"compactor.max.bytes": bound})
    assert rows_of(site, table) == wanted
    fates = [once(site).result for _ in range(len(EIGHT)) if list_claimable_ids(site)]
    assert set(fates) == {Result.COMPACTED}
    clean_all(site)
    assert len(deltas(table)) <= 3
    assert rows_of(site, table) == wanted


def test_what_is_left_is_told_wherever_runs_are(site: Site, table: Table) -> None:
    outcome = asked(site, compactor_max_bytes=str(3 * delta_bytes(table)))
    left = outcome.left
    assert site.state is not None
    (run,) = site.state.runs.of_entry(site.name, outcome.entry.id)
    assert (run.deltas_left, run.bytes_left) == (left.deltas, left.bytes)
    told = explain(site, "default.t").partitions[0].runs[0]
    assert (told["deltas_left"], told["bytes_left"]) == (left.deltas, left.bytes)
    site.metastore.claims.abort_request(*list_claimable_ids(site))
    clean_all(site)
    rows = {row.compactionid: row for row in show_history(site)}
    assert (rows[outcome.entry.id].deltas_left, rows[outcome.entry.id].bytes_left) == (left.deltas, left.bytes)


def test_the_table_may_set_the_bound(site: Site, table: Table, warehouse: Path) -> None:
    own = make_table(site, warehouse, "own", **{"compactor.max.bytes": "1GB", "compactor.max.time": "90s"})
    found = bound_of(site.target(entity_of(own)).settings)
    assert (found.bytes, found.milliseconds) == (1 << 30, 90_000)
    found = bound_of(site.target(entity_of(table)).settings)
    assert (found.bytes, found.milliseconds, found.chunk_deltas) == (None, None, 500)


def test_when_the_time_is_over_what_is_whole_is_published(site: Site, table: Table) -> None:
    """PROTOCOL 1.2: the first chunk always comes to its end; CQ_HIGHEST_WRITE_ID is that of what is whole."""
    wanted = rows_of(site, table)
    outcome = asked(site, compactor_max_time="1ms", compactor_chunk_bytes=str(2 * delta_bytes(table)))
    assert (outcome.result, len(outcome.output), outcome.left.deltas) == (Result.COMPACTED, 1, 6)
    assert outcome.message == f"compactor.max.time; 6 deltas, {outcome.left.bytes} bytes left"
    entry = site.metastore.entries.get(outcome.entry.id)
    assert (entry.state, entry.highest_write_id) == (State.READY_FOR_CLEANING, 2)
    assert rows_of(site, table) == wanted
    assert not [name for name in names_in(Path(table.location)) if name.startswith(".compactor")]


def test_in_time_all_chunks_are_published_at_once(site: Site, table: Table) -> None:
    outcome = asked(site, compactor_max_time="1h", compactor_chunk_bytes=str(2 * delta_bytes(table)))
    assert [name.partition("_v")[0] for name in outcome.output] == [
        f"delta_{n:07d}_{n + 1:07d}" for n in range(1, 9, 2)
    ]
    assert not outcome.left
    assert list_claimable_ids(site) == []
    clean_all(site)
    assert len(deltas(table)) == 4


def test_a_worker_that_is_to_stop_publishes_what_is_whole(site: Site, table: Table) -> None:
    """It stops between units where the request is bounded in time; else the entry is brought to its end."""
    for time, chunks in (("1h", 1), ("0s", 1)):
        properties = {"compactor.max.time": time, "compactor.chunk.bytes": str(2 * delta_bytes(table))}
        request_compaction(site, table="default.t", type="minor", properties=properties)
        outcome = once(site, options=Options(stops=lambda: True))
        assert (outcome.result, len(outcome.output)) == (Result.COMPACTED, chunks)
        assert bool(outcome.left) is (time == "1h")
        for entry in list_claimable_ids(site):
            site.metastore.claims.abort_request(entry)
        clean_all(site)
    assert deltas(table) == ["delta_0000001_0000008"]


def test_a_base_that_is_not_done_in_time_is_refused(site: Site, table: Table) -> None:
    before = names_in(Path(table.location))
    outcome = asked(site, "major", compactor_max_time="1ms")
    assert outcome.result is Result.REFUSED
    assert "was not done within compactor.max.time (1 ms)" in outcome.message
    assert names_in(Path(table.location)) == before
    assert asked(site, "major", compactor_max_time="1h").result is Result.COMPACTED


def test_a_base_that_reads_too_much_merges_deltas_until_it_does_not(site: Site, table: Table) -> None:
    compact(site)
    clean_all(site)
    for start in EIGHT:
        insert(site, table, range(100 + start, 103 + start))
    wanted, bound = rows_of(site, table), str(3 * delta_bytes(table))
    first = asked(site, "major", compactor_max_bytes=bound)
    assert (first.result, first.entry.type) == (Result.COMPACTED, CompactionType.MAJOR)
    assert first.output[0].startswith("delta_")
    assert "more than compactor.max.bytes" in first.message
    outcomes = [first, *(once(site) for _ in range(len(EIGHT)) if list_claimable_ids(site))]
    assert {outcome.result for outcome in outcomes} == {Result.COMPACTED}
    assert not outcomes[-1].left.again
    for _ in range(len(EIGHT)):  # what came of it is merged again, where nothing else is to do
        clean_all(site)
        last = asked(site, "major", compactor_max_bytes=bound)
        if last.output[0].startswith("base_"):
            break
    assert (last.result, bool(last.left)) == (Result.COMPACTED, False)
    assert rows_of(site, table) == wanted


def test_a_base_that_never_fits_says_what_to_raise(site: Site, table: Table) -> None:
    outcome = asked(site, "major", compactor_max_bytes="10")
    assert outcome.result is Result.REFUSED
    assert "compactor.max.bytes 10; raise it to " in outcome.message


def test_a_rebalance_is_whole_or_not_at_all(site: Site, table: Table) -> None:
    outcome = asked(site, "rebalance", compactor_max_bytes="100")
    assert outcome.result is Result.REFUSED
    assert "a rebalance reads" in outcome.message


def test_a_dry_run_tells_the_chunks(site: Site, table: Table) -> None:
    bounded = with_settings(site, compactor_max_time="1h", compactor_chunk_bytes=str(2 * delta_bytes(table)))
    (told,) = preview(bounded, "default.t", type="minor")
    assert [name.partition("_v")[0] for name in told.outputs] == [f"delta_{n:07d}_{n + 1:07d}" for n in range(1, 9, 2)]
    bounded = with_settings(site, compactor_max_bytes=str(3 * delta_bytes(table)))
    (told,) = preview(bounded, "default.t", type="minor")
    assert (len(told.inputs), len(told.outputs)) == (3, 1)
    assert "compactor.max.bytes; 5 deltas" in told.because
