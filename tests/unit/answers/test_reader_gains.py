from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers.reader_gains import reads_of, table_reads
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.requests.import_reads import import_reads
from compactor.site.site import Site, own_state
from compactor.state.runs import Run
from tests.support.read_events import plain
from tests.support.tables import make_table


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    """Two tables of which each was compacted a while ago; one of them was read before and after."""
    for name in ("t", "unread"):
        make_table(deployment, warehouse, name)
    state = own_state(deployment)
    runs = [
        Run(
            metastore=deployment.name,
            entry_id=n,
            entity=Entity(database="default", table=name),
            type=CompactionType.MAJOR,
        )
        for n, name in enumerate(("t", "unread"), 1)
    ]
    state.runs.add_all(runs)
    with state.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPACTOR_RUNS SET ENDED_AT = ENDED_AT - 3600000")
    return deployment


def tell(site: Site) -> None:
    now = site.metastore.now_ms() / 1000
    before = [plain(n, at=now - 7200, seconds=8, files=20, sql=f"select {n}") for n in range(3)]
    after = [plain(n, at=now - 60, seconds=2, files=1, sql=f"select {n}") for n in range(3, 6)]
    import_reads(site, [json.dumps([*before, *after])], "f")


def test_like_queries_before_and_after_and_what_nobody_reads(site: Site) -> None:
    assert table_reads(site) == []  # nobody tells of any
    tell(site)
    read, unread = (one.to_json() for one in table_reads(site))
    assert (read["table"], read["queries"], read["seconds"], read["compared"]) == ("default.t", 6, 30.0, 1)
    assert (read["before"], read["after"], read["files_before"], read["files_after"]) == (8.0, 2.0, 20.0, 1.0)
    assert (unread["table"], unread["queries"], unread["runs"], unread["before"]) == ("default.unread", 0, 1, None)
    assert len(table_reads(site, limit=1)) == 2


def test_one_table(site: Site) -> None:
    assert not reads_of(site, "default", "t").is_read
    tell(site)
    assert reads_of(site, "default", "t") == table_reads(site)[0]
    assert reads_of(site, "default", "unread").runs == 1
    assert not reads_of(replace(site, state=None), "default", "t").is_read
    assert table_reads(replace(site, state=None)) == []
