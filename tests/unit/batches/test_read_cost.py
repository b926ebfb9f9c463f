from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.acid.listing import Listing
from compactor.answers.show_compactions import show_history
from compactor.base.errors import BadFile
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.batches.read_cost import AGAIN, LONGEST, ROUNDS, CostSampler, measure_opening
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Outcome, Result
from tests.support.passes import clean_all
from tests.support.tables import insert, make_table, with_settings


class Ticks:
    """A clock that advances by ``step`` seconds each time it is read."""

    def __init__(self, step: float) -> None:
        self.step = step
        self.now = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def compacted(site: Site, warehouse: Path, name: str, deltas: int = 3) -> Outcome:
    table = make_table(site, warehouse, name)
    for value in range(deltas):
        insert(site, table, [value])
    request_compaction(site, table=name, type="major")
    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert outcome.result is Result.COMPACTED
    return outcome


def test_the_read_cost_of_a_run_is_measured_and_shown(deployment: Site, warehouse: Path) -> None:
    compacted(deployment, warehouse, "t")
    assert deployment.state is not None
    (run,) = deployment.state.runs.latest(deployment.name)
    assert run.opening_before is not None
    assert run.opening_after is not None
    assert run.opening_before > 0 < run.opening_after
    clean_all(deployment)
    (row,) = show_history(deployment)
    assert (row.opening_before, row.opening_after) == (run.opening_before, run.opening_after)


def test_a_setting_switches_it_off(deployment: Site, warehouse: Path) -> None:
    compacted(with_settings(deployment, compactor_opening_interval="0s"), warehouse, "t")
    assert deployment.state is not None
    (run,) = deployment.state.runs.latest(deployment.name)
    assert (run.opening_before, run.opening_after) == (None, None)


def test_one_run_per_interval_is_measured(deployment: Site, warehouse: Path) -> None:
    outcome = compacted(deployment, warehouse, "t")
    clock = Ticks(0.001)
    sampler = CostSampler(deployment, clock)
    assert sampler.measure(outcome) is not None
    assert sampler.measure(outcome) is None
    clock.now += 60
    assert sampler.measure(replace(outcome, result=Result.FAILED)) is None
    assert sampler.measure(outcome) is not None


@pytest.mark.parametrize(("step", "rounds"), [(AGAIN / 100, ROUNDS), (AGAIN, 1)])
def test_a_far_store_is_asked_once(deployment: Site, warehouse: Path, step: float, rounds: int) -> None:
    """Where each answer takes long, further rounds would hold the worker up, and what disturbs one counts little."""
    outcome = compacted(deployment, warehouse, "t")
    storage = _Counted()
    measure_opening(storage, outcome.location, outcome.inputs, Ticks(step))
    assert storage.listings == rounds * len(outcome.inputs)


class _Counted(LocalStorage):
    listings = 0

    def listing(self, path: str) -> Listing:
        self.listings += 1
        return super().listing(path)


def test_a_slow_side_is_measured_in_part(deployment: Site, warehouse: Path) -> None:
    outcome = compacted(deployment, warehouse, "t", deltas=6)
    clock = Ticks(LONGEST)
    found = measure_opening(deployment.storage, outcome.location, outcome.inputs, clock)
    assert len(outcome.inputs) == 6
    # listed within a tick; the first file's tick does not go beyond the bound, the second's does; a third ends it
    assert found == pytest.approx(LONGEST + 6 * 3 * LONGEST / 2)


def test_the_shortest_round_counts(deployment: Site, warehouse: Path) -> None:
    outcome = compacted(deployment, warehouse, "t", deltas=2)
    slow = [0.0, 0.01, 0.01, 0.02, 0.03, 0.03]
    fast = [0.04, 0.042, 0.042, 0.044, 0.046, 0.048]
    looks = iter([0.0, *slow, 0.04, *fast, 0.05, *(0.05 + look for look in slow)])
    found = measure_opening(deployment.storage, outcome.location, outcome.inputs, lambda: next(looks))
    assert found == pytest.approx(0.002 + 0.006)
    assert next(looks, None) is None


def test_files_that_cannot_be_opened_are_not_measured(deployment: Site, warehouse: Path) -> None:
    """The cleaner may have removed them, or they are not ORC; the run itself does not suffer."""
    outcome = compacted(deployment, warehouse, "t")
    gone = replace(outcome, inputs=("delta_0000077_0000077",))
    with pytest.raises(BadFile):
        measure_opening(deployment.storage, gone.location, gone.inputs)
    assert CostSampler(deployment).measure(gone) is None
    (first, *_) = outcome.inputs
    for file in (warehouse / "t" / first).glob("bucket_*"):
        file.write_bytes(b"PAR1")
    assert CostSampler(deployment).measure(outcome) is None
