from __future__ import annotations

import random
from dataclasses import replace

import pytest

from compactor.insight.estimates import FEWEST, Estimator, Past, Work, median_error, relative_error

COPY, ENCODE, FILE, ITSELF = 1 / 400e6, 1 / 20e6, 0.01, 0.08  #: seconds of each, in the generated world


def run_of(chance: random.Random, *, noise: float = 0.15, store: str = "s3a") -> Past:
    """A run of a world in which each byte and file takes its time, a few runs are eight times as slow, and some wait for
    others."""
    work = Work(
        store=store,
        type=chance.choice(("MAJOR", "MINOR")),
        files=chance.randint(2, 200),
        bytes_copied=int(10 ** chance.uniform(4, 9.5)) if chance.random() < 0.8 else 0,
        bytes_reencoded=int(10 ** chance.uniform(4, 9)) if chance.random() < 0.5 else 0,
        together=chance.choice((1, 1, 1, 20)),
    )
    own = FILE * work.files + COPY * work.bytes_copied + ENCODE * work.bytes_reencoded
    slow = 8 if noise and chance.random() < 0.03 else 1
    seconds = (ITSELF + work.together * own) * chance.lognormvariate(0, noise) * slow
    return Past(work=work, seconds=seconds, core_seconds=own, bytes_encoded=round(work.bytes_reencoded * 0.7))


def test_after_fifty_runs_the_median_error_is_below_a_quarter() -> None:
    chance = random.Random(1)
    past: list[Past] = []
    made: list[tuple[float, float]] = []
    inside = 0
    for number in range(150):
        run = run_of(chance)
        if number >= 50:
            found = Estimator(past).estimate(run.work)
            assert found is not None
            made.append((found.seconds, run.seconds))
            inside += found.low <= run.seconds <= found.high
        past.insert(0, run)
    error = median_error(made)
    assert error is not None
    assert error <= 0.25
    assert 0.6 <= inside / len(made) <= 0.95


def test_without_noise_the_rates_are_found() -> None:
    chance = random.Random(2)
    past = [run_of(chance, noise=0) for _ in range(40)]
    work = Work(store="s3a", type="MAJOR", files=10, bytes_copied=4_000_000_000, bytes_reencoded=200_000_000)
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
    work = Work(store="s3a", type="REBALANCE", files=10, bytes_copied=0, bytes_reencoded=200_000_000)
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
