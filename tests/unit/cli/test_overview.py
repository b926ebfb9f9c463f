from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from compactor.rewrite.run.runner import InProcessRunner
from compactor.service.batches.assembly import claimable
from compactor.service.batches.driver import run_entries
from compactor.service.requests.request import request_compaction
from compactor.service.roles.initiator import initiate
from compactor.service.site import Site
from tests.support.tables import insert, make_table

Compactor = Callable[..., Result]


def test_the_overview_of_a_metastore(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    empty = compactor("overview")
    assert "no table has been looked at yet" in empty.stdout
    table = make_table(deployment, warehouse)
    for value in (1, 2):
        insert(deployment, table, [value])
    request_compaction(deployment, table="default.t", type="major")
    initiate(deployment)
    run_entries(deployment, claimable(deployment), InProcessRunner())
    told = compactor("overview").stdout
    assert "due: 0 tables and partitions (at " in told
    assert "last 7 days: 1 run removed 1 directory and " in told
    found = json.loads(compactor("overview", "--json").stdout)
    assert [one["table"] for one in found["worst"]] == ["t"]
    assert found["returns"][1]["days"] == 30
