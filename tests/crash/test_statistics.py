"""Statistics and the compaction that they come with are committed together, or neither of them is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from compactor.base.steps import Step
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from tests.crash.test_steps import finish
from tests.support import roles
from tests.support.forked import die
from tests.support.tables import delete, insert, make_table, rows_of, with_settings

KEYS = ("numFiles", "totalSize", "numRows", "rawDataSize")
STEPS = [Step.NAMED, Step.STATISTICS_WRITTEN, Step.COMMITTED]


def statistics(site: Site, table: Table) -> Mapping[str, str]:
    found = site.metastore.catalog.table(table.database, table.name).parameters
    return {key: found[key] for key in KEYS if key in found}


@pytest.mark.parametrize("tables", [1, 3])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_what_did_not_commit_before_a_crash_has_no_statistics(
    deployment: Site, metastore_url: str, warehouse: Path, step: Step, tables: int
) -> None:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    made = [make_table(site, warehouse, name) for name in "tuv"[:tables]]
    for table in made:
        insert(site, table, range(10))
        insert(site, table, range(10, 20))
        delete(site, table, [3])
        request_compaction(site, table=str(table), type="major")
    wanted = [rows_of(site, table) for table in made]
    die(roles.worker, metastore_url, step)
    for table in made:
        entry = next(one for one in site.metastore.entries.queue() if one.entity.table == table.name)
        has_committed = entry.state is State.READY_FOR_CLEANING
        assert has_committed is (step is Step.COMMITTED)
        assert bool(statistics(site, table)) is has_committed
    finish(site)
    assert [rows_of(site, table) for table in made] == wanted
    for table in made:
        files = list(Path(table.location).glob("base_*/bucket_*"))
        size = str(sum(file.stat().st_size for file in files))
        assert statistics(site, table) == {
            "numFiles": str(len(files)),
            "totalSize": size,
            "numRows": "19",
            "rawDataSize": "0",
        }
