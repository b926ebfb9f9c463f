from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from click.testing import Result

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.initiator.initiator import initiate
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
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
    run_entries(deployment, list_claimable_ids(deployment), InProcessRunner())
    told = compactor("overview").stdout
    assert "due: 0 tables and partitions (at " in told
    assert "last 7 days: 1 run removed 1 directory and " in told
    found = json.loads(compactor("overview", "--json").stdout)
    assert [one["table"] for one in found["worst"]] == ["t"]
    assert found["returns"][1]["days"] == 30


def test_alarms_are_told_with_what_to_do(compactor: Compactor, deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse)
    for _ in range(11):
        (asked,) = request_compaction(deployment, table="default.t", type="major")
        entry = deployment.metastore.claims.claim("compactor-w", "1", pool_timeout_ms=0, ids=[asked.entry_id or 0])
        assert entry is not None
        deployment.metastore.endings.finish(entry, State.FAILED, "no space")
    told = compactor("overview").stdout
    assert "alarm (warn) failed_compaction_ratio: 11 of the 11 compactions in the history failed" in told
    assert "; compactor show history shows why" in told
    assert "failed in 7 days: 1 more" in told
