from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.insight.estimates import (
    FEWEST,
    Estimate,
    EstimatedWork,
    Estimator,
    PastRun,
    error_of,
    estimator_of,
    median_error,
    past_of,
    reencoded_of,
    relative_error,
    store_of,
)
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site, own_state
from compactor.state.runs import Run
from tests.support.sizes import sized
from tests.support.tables import insert, make_table

COPY, ENCODE, FILE, ITSELF = 1 / 400e6, 1 / 20e6, 0.01, 0.08  #: seconds of each, in the generated world


def run_of(chance: random.Random, *, noise: float = 0.15, store: str = "s3a") -> PastRun:
    """A run of a world in which each byte and file takes its time, and a few runs are eight times as slow.

    One in four has twenty entries, of quite different sizes.
    """
    entries = chance.choice((1, 1, 1, 20))
    work = EstimatedWork(
        store=store,
        type=chance.choice(("MAJOR", "MINOR")),
        files=sum(chance.randint(2, 200) for _ in range(entries)),
        bytes_copied=sum(int(10 ** chance.uniform(4, 9.5)) if chance.random() < 0.8 else 0 for _ in range(entries)),
        bytes_reencoded=sum(int(10 ** chance.uniform(4, 9)) if chance.random() < 0.5 else 0 for _ in range(entries)),
        entries=entries,
    )
    own = FILE * work.files + COPY * work.bytes_copied + ENCODE * work.bytes_reencoded
    slow = 8 if noise and chance.random() < 0.03 else 1
    seconds = (ITSELF + own) * chance.lognormvariate(0, noise) * slow
    return PastRun(work=work, seconds=seconds, core_seconds=own, bytes_encoded=round(work.bytes_reencoded * 0.7))


def held_out(batches: Sequence[Sequence[PastRun]], known: int) -> list[tuple[Estimate, float]]:
    """Returns the estimate of each run by the batches before its own, from batch ``known`` on, with the time it took."""
    pairs: list[tuple[Estimate, float]] = []
    past: list[PastRun] = []
    for number, batch in enumerate(batches):
        if number >= known:
            estimator = Estimator(past)
            estimates = [(estimator.estimate(run.work), run.seconds) for run in batch]
            pairs += [(estimate, seconds) for estimate, seconds in estimates if estimate is not None]
        past = [*reversed(batch), *past]
    return pairs


def factor_off(estimate: Estimate, seconds: float) -> float:
    """Returns how many times too long or too short an estimate was."""
    return max(estimate.seconds / seconds, seconds / estimate.seconds)


@pytest.mark.parametrize("seed", range(sized(short=3, whole=30)))
def test_batches_that_it_has_not_seen_take_what_it_expects(seed: int) -> None:
    """The median error is at most 25 %, and 95 of 100 estimates are within a factor of two."""
    chance = random.Random(seed)
    estimates = held_out([[run_of(chance) for _ in range(10)] for _ in range(20)], known=5)
    assert len(estimates) == 150
    assert (median_error([(estimate.seconds, seconds) for estimate, seconds in estimates]) or 0) <= 0.25
    assert np.quantile([factor_off(*pair) for pair in estimates], 0.95) <= 2
    inside = sum(estimate.low <= seconds <= estimate.high for estimate, seconds in estimates)
    assert 0.7 <= inside / len(estimates) <= 0.95


def test_no_estimate_is_longer_than_the_slowest_comparable_run_allows() -> None:
    """Small runs, one of which was slow for another reason, must not make a run of seconds last for hours."""

    def small(files: int, seconds: float) -> PastRun:
        work = EstimatedWork(store="file", type="MAJOR", files=files, bytes_copied=0, bytes_reencoded=files * 300)
        return PastRun(work=work, seconds=seconds)

    past = [small(2, 0.2), small(4, 0.4), small(6, 0.6), small(3, 40.0), small(5, 0.5)]
    large = EstimatedWork(store="file", type="MAJOR", files=8, bytes_copied=0, bytes_reencoded=20_000_000)
    estimate = Estimator(past).estimate(large)
    assert estimate is not None
    assert estimate.seconds <= 40 * 20
    done = PastRun(work=large, seconds=3.7)
    again = Estimator([done, *past]).estimate(replace(large, files=7, bytes_reencoded=19_000_000))
    assert again is not None
    assert again.seconds <= 3.7


def test_without_noise_the_rates_are_found() -> None:
    chance = random.Random(2)
    past = [run_of(chance, noise=0) for _ in range(40)]
    work = EstimatedWork(store="s3a", type="MAJOR", files=10, bytes_copied=4_000_000_000, bytes_reencoded=200_000_000)
    found = Estimator(past).estimate(work)
    assert found is not None
    assert found.seconds == pytest.approx(ITSELF + 0.1 + 10 + 10, rel=0.01)
    assert found.core_seconds == pytest.approx(0.1 + 10 + 10, rel=0.01)
    assert found.bytes_written == pytest.approx(4_000_000_000 + 140_000_000, rel=0.01)


def test_too_few_runs_say_nothing_and_those_over_other_stores_do_not_count() -> None:
    chance = random.Random(3)
    work = run_of(chance).work
    past = [run_of(chance, store="hdfs") for _ in range(50)]
    assert Estimator([]).estimate(work) is None
    assert Estimator(past).estimate(work) is None
    assert Estimator([*(run_of(chance) for _ in range(FEWEST - 1)), *past]).estimate(work) is None


def test_runs_of_the_same_type_are_preferred_once_there_are_enough() -> None:
    chance = random.Random(4)
    past = [run_of(chance, noise=0) for _ in range(60)]
    slow = [
        replace(one, work=replace(one.work, type="REBALANCE"), seconds=one.seconds * 10)
        for one in (run_of(chance, noise=0) for _ in range(20))
    ]
    work = EstimatedWork(store="s3a", type="REBALANCE", files=10, bytes_copied=0, bytes_reencoded=200_000_000)
    few, many = Estimator([*slow[:3], *past]).estimate(work), Estimator([*slow, *past]).estimate(work)
    assert few is not None
    assert many is not None
    assert many.seconds > 5 * few.seconds


def test_runs_that_do_not_tell_their_cores_give_no_core_seconds() -> None:
    chance = random.Random(5)
    past = [replace(run_of(chance), core_seconds=None) for _ in range(20)]
    found = Estimator(past).estimate(past[0].work)
    assert found is not None
    assert found.core_seconds is None


def test_an_error_is_in_proportion_to_what_the_run_took() -> None:
    assert relative_error(3.0, 2.0) == 0.5
    assert median_error([(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]) == 0.5
    assert median_error([]) is None


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
    assert past_of([run(bytes_copied=1)]) is None
    assert past_of([run(store="file"), run(store="file", bytes_copied=1)]) is None
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
    work = past_of([found[-1]])
    assert work is not None
    again = estimator_of(deployment.state, deployment.name, "file").estimate(work.work)
    assert again is not None
    assert again.runs == 7
    assert again.low <= again.seconds <= again.high
    last = found[-1]
    assert last.expected_low is not None
    assert last.expected_high is not None
    assert last.expected_low <= (last.expected_seconds or 0) <= last.expected_high


def test_entries_that_went_together_are_one_run() -> None:
    major = run(
        store="file", bytes_copied=5, files_before=2, seconds=3.0, core_seconds=0.5, bytes_before=5, bytes_after=5
    )
    other = replace(major, type=CompactionType.MINOR, bytes_copied=7, bytes_before=7, bytes_after=7, files_before=9)
    past = past_of([major, other])
    assert past == PastRun(
        work=EstimatedWork(store="file", type="MIXED", files=11, bytes_copied=12, bytes_reencoded=0, entries=2),
        seconds=3.0,
        core_seconds=1.0,
    )
    shared = replace(major, expected_seconds=6.0, group_key="a")
    alone = replace(major, entry_id=7, expected_seconds=3.0)
    assert error_of([shared, shared, shared, alone]) == 0.5


def test_the_runs_of_a_batch_do_not_predict_each_other(deployment: Site, warehouse: Path) -> None:
    for name in "abcdefgh":
        table = make_table(deployment, warehouse, name)
        insert(deployment, table, [1])
        insert(deployment, table, [2])
        request_compaction(deployment, table=f"default.{name}", type="major")
    ids = list_claimable_ids(deployment)
    run_entries(deployment, ids[:7], InProcessRunner(), parallel=7)
    runs = own_state(deployment).runs.latest(deployment.name)
    assert [run.expected_seconds for run in runs] == [None] * 7
    run_entries(deployment, ids[7:], InProcessRunner())
    (last, *_) = own_state(deployment).runs.latest(deployment.name)
    assert last.expected_seconds is not None


def test_those_of_one_claim_share_their_time(deployment: Site, warehouse: Path) -> None:
    for name in "ab":
        table = make_table(deployment, warehouse, name)
        for value in (1, 2):
            insert(deployment, table, [value])
        request_compaction(deployment, table=f"default.{name}", type="major")
    run_entries(deployment, list_claimable_ids(deployment), InProcessRunner())
    assert [one.together for one in own_state(deployment).runs.latest(deployment.name)] == [2, 2]
