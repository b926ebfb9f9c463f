from __future__ import annotations

import json
from pathlib import Path

from compactor.insight.reads_a_day import HARDLY, ReadsADay
from compactor.requests.import_reads import import_reads
from compactor.site.site import Site
from compactor.state.runs import DAY_MS
from tests.support.read_events import plain
from tests.support.tables import make_table


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
