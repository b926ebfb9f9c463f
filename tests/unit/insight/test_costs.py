from __future__ import annotations

import pytest

from compactor.compaction.economy import plain_cost
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.insight.costs import Costs
from compactor.site.site import Site, own_state
from compactor.state.runs import Run


def run(number: int, size: int) -> Run:
    """A run that copied three quarters of its input, at 10 MB in a core-second."""
    return Run(
        metastore="default",
        entry_id=number,
        entity=Entity(database="d", table="t"),
        type=CompactionType.MAJOR,
        files_before=1,
        bytes_before=size,
        bytes_after=size,
        bytes_copied=3 * size // 4,
        stripes_reencoded=1,
        seconds=size / 1e7,
        core_seconds=size / 1e7,
        store="file",
    )


def test_runs_say_what_one_costs(deployment: Site) -> None:
    own_state(deployment).runs.add_all([run(number, number * 10_000_000) for number in range(1, 9)])
    costs = Costs(deployment.state, deployment.name)
    assert costs.estimate("file", CompactionType.MAJOR, files=1, size=60_000_000) == pytest.approx(6, rel=0.1)
    assert costs.estimate("s3", CompactionType.MAJOR, files=1, size=60_000_000) == plain_cost(60_000_000)
