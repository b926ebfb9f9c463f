from __future__ import annotations

import json
from pathlib import Path

from compactor.insight.read_returns import HARDLY, WINDOW_MS, ReadOnce, ReadsADay, RunOnce, compare
from compactor.requests.import_reads import import_reads
from compactor.site.site import Site
from compactor.state.runs import DAY_MS
from tests.support.read_events import plain
from tests.support.tables import make_table

MINUTE = 60_000
RUN = RunOnce(entry_id=1, partition=None, began=100 * MINUTE, ended=110 * MINUTE)


def read(minute: int, seconds: float, like: str = "a", files: int | None = None) -> ReadOnce:
    return ReadOnce(like=like, at=minute * MINUTE, seconds=seconds, files=files)


def test_like_queries_are_compared_by_their_medians() -> None:
    before = [read(minute, seconds, files=40) for minute, seconds in ((10, 8.0), (20, 10.0), (30, 99.0))]
    after = [read(minute, 2.0, files=2) for minute in (120, 130)]
    (found,) = compare([*before, *after], [RUN])
    assert (found.kinds, found.queries, found.before, found.after) == (1, 2, 10.0, 2.0)
    assert (found.files_before, found.files_after) == (40, 2)


def test_what_has_nothing_like_it_on_the_other_side_does_not_count() -> None:
    reads = [read(10, 8.0), read(120, 4.0), read(10, 100.0, "only before"), read(120, 100.0, "only after")]
    (found,) = compare(reads, [RUN])
    assert (found.kinds, found.before, found.after, found.files_before) == (1, 8.0, 4.0, None)
    assert compare(reads[2:], [RUN]) == []
    assert compare([], [RUN]) == []


def test_kinds_weigh_as_their_smaller_side() -> None:
    often = [read(minute, 10.0) for minute in (1, 2, 3)] + [read(minute, 5.0) for minute in (120, 121, 122)]
    seldom = [read(1, 50.0, "b"), read(120, 50.0, "b")]
    (found,) = compare([*often, *seldom], [RUN])
    assert (found.queries, found.before, found.after) == (4, 20.0, 16.25)


def test_a_query_during_the_compaction_counts_on_no_side() -> None:
    reads = [read(10, 8.0), read(105, 1.0), read(111, 120.0)]  # the last one began before the end
    assert compare(reads, [RUN]) == []


def test_the_next_compaction_of_the_same_bounds_what_is_after() -> None:
    later = RunOnce(entry_id=2, partition=None, began=200 * MINUTE, ended=201 * MINUTE)
    other = RunOnce(entry_id=3, partition="p=1", began=115 * MINUTE, ended=116 * MINUTE)
    reads = [read(10, 8.0), read(150, 4.0), read(250, 1.0)]
    found = {one.entry_id: (one.before, one.after) for one in compare(reads, [later, RUN, other])}
    assert found == {1: (8.0, 4.0), 2: (4.0, 1.0), 3: (8.0, 2.5)}


def test_a_week_is_long_enough() -> None:
    week = WINDOW_MS // MINUTE
    assert compare([read(10, 8.0), read(110 + week + 1, 1.0)], [RUN]) == []


def test_reads_of_the_last_days_by_table(deployment: Site, warehouse: Path) -> None:
    now = deployment.metastore.now_ms()
    assert (
        ReadsADay.since(deployment.state, deployment.name, now, 7).for_table("default", "t") == 1.0
    )  # nobody tells of any
    for name in ("t", "unread"):
        make_table(deployment, warehouse, name)
    ages = (0.1, 1, 2, 6, 9)
    told = [plain(number, at=(now - age * DAY_MS) / 1000, seconds=1) for number, age in enumerate(ages)]
    import_reads(deployment, [json.dumps(told)], "f")
    reads = ReadsADay.since(deployment.state, deployment.name, now, 8)
    assert (reads.for_table("default", "t"), reads.for_table("default", "unread")) == (0.5, HARDLY)
