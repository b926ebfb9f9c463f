"""A process that compacts beside a Hive 2 is killed at each step: its readers see the same rows at once and afterwards,
and the next call leaves one finished row and nothing else behind.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from compactor.acid.names import parse_staging
from compactor.base.steps import Step
from compactor.database.engine import open_database
from compactor.hive2.upgrade_check import before_hive_3
from compactor.site.finding import Level
from tests.support import hive2, roles
from tests.support.expected import read_expected, step
from tests.support.forked import die
from tests.support.watching import names_in

STEPS = (
    Step.CLAIMED,
    Step.RECORDED,
    Step.DIRECTORY_CLAIMED,
    Step.ATTEMPT_STARTED,
    Step.ATTEMPT_WRITTEN,
    Step.ACCEPTED,
    Step.VERIFIED,
    Step.MANIFEST_WRITTEN,
    Step.COMMITTING,
    Step.NAMED_FIRST,
    Step.NAMED,
    Step.COMMITTED,
    Step.STAGING_REMOVED,
)


@pytest.mark.parametrize("asked", [False, True], ids=["new", "asked"])
@pytest.mark.parametrize("at", STEPS, ids=lambda at: at.name)
def test_a_crash_beside_hive_2_changes_no_row(tmp_path: Path, warehouse: Path, at: Step, asked: bool) -> None:
    url = f"sqlite:///{tmp_path / 'hive2.db'}"
    database = open_database(url)
    with database.write() as conn:
        for statement in hive2.schema_sql("sqlite"):
            conn.exec_driver_sql(statement)
    fixture = hive2.register(database, step("hive-2.3/f7_v1/s1_dml"), warehouse)
    if asked:
        with database.write() as conn:
            columns = "CQ_ID, CQ_DATABASE, CQ_TABLE, CQ_STATE, CQ_TYPE"
            conn.execute(text(f"INSERT INTO COMPACTION_QUEUE ({columns}) VALUES (9, 'default', 'f7_v1', 'i', 'a')"))
    site = hive2.site_of(database)
    location = warehouse / fixture.table
    wanted = sorted(read_expected(fixture.path).row_ids)
    die(roles.beside_hive_2, url, at)
    assert hive2.show_rows(site, fixture, location) == wanted
    (finding,) = hive2.compact(site)
    assert finding.level is Level.OK
    assert hive2.show_rows(site, fixture, location) == wanted
    assert [f.level for f in before_hive_3(site.metastore.catalog, site.storage, is_upgraded=False)] == [Level.OK]
    with database.read() as conn:
        found = conn.execute(text("SELECT CQ_STATE, CQ_WORKER_ID, CQ_HIGHEST_TXN_ID FROM COMPACTION_QUEUE")).all()
    assert [tuple(row) for row in found] == [("r", None, 34)]
    staged = [name for name in names_in(location) if name.startswith(".")]
    assert list(map(parse_staging, staged)) == ([16] if at is Step.COMMITTED else [])  # a later compaction's to sweep
    hive2.clean(site, database, location)
    assert [child.name for child in location.iterdir() if not child.name.startswith(".")] == ["base_0000034"]
    assert hive2.show_rows(site, fixture, location) == wanted
    database.close()
