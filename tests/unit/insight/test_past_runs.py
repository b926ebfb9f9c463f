from __future__ import annotations

from pathlib import Path

import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.entry import Entity
from compactor.compaction.states import CompactionType
from compactor.insight.past_runs import error_of, estimator_of, past_of, reencoded_of, store_of
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site, own_state
from compactor.state.runs import Run
from tests.support.tables import insert, make_table


@pytest.mark.parametrize(
    ("location", "store"),
    [("/warehouse/t", "file"), ("s3a://bucket/t", "s3a"), ("HDFS://name:8020/t", "hdfs"), ("file:///w/t", "file")],
)
def test_the_store_of_a_location(location: str, store: str) -> None:
    assert store_of(location) == store


def test_what_is_not_copied_is_re_encoded_or_dropped() -> None:
    assert reencoded_of(100, 1, 3) == 25
    assert reencoded_of(100, 0, 0) == 100
    assert reencoded_of(-1, 2, 0) == 0


def run(**figures: object) -> Run:
    entity = Entity(database="default", table="t")
    return Run(metastore="default", entry_id=1, entity=entity, type=CompactionType.MAJOR, **figures)  # type: ignore[arg-type]


def test_rows_of_older_releases_say_too_little() -> None:
    assert past_of(run(bytes_copied=1)) is None
    assert past_of(run(store="file")) is None
    assert error_of([run(), run(seconds=2.0, expected_seconds=1.0)]) == 0.5
    assert error_of([run()]) is None


def test_each_run_is_stored_with_what_was_expected_of_it(deployment: Site, warehouse: Path) -> None:
    """The first ones have nothing to go by; nothing is expected of a run by itself."""
    for name in "abcdefg":
        table = make_table(deployment, warehouse, name)
        for value in (1, 2, 3):
            insert(deployment, table, [value])
        request_compaction(deployment, table=f"default.{name}", type="major")
        run_entries(deployment, list_claimable_ids(deployment), InProcessRunner())
    found = own_state(deployment).runs.latest(deployment.name)[::-1]
    assert [one.expected_seconds is None for one in found] == [True] * 5 + [False] * 2
    assert {(one.store, one.together) for one in found} == {("file", 1)}
    assert all(one.core_seconds is not None and 0 < one.core_seconds < 60 for one in found)
    work = past_of(found[-1])
    assert work is not None
    again = estimator_of(deployment.state, deployment.name, "file").estimate(work.work)
    assert again is not None
    assert again.runs == 7
    assert again.low <= again.seconds <= again.high


def test_those_of_one_claim_share_their_time(deployment: Site, warehouse: Path) -> None:
    for name in "ab":
        table = make_table(deployment, warehouse, name)
        for value in (1, 2):
            insert(deployment, table, [value])
        request_compaction(deployment, table=f"default.{name}", type="major")
    run_entries(deployment, list_claimable_ids(deployment), InProcessRunner())
    assert [one.together for one in own_state(deployment).runs.latest(deployment.name)] == [2, 2]
