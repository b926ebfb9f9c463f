"""Keeping what a compaction replaced, and erasing it: killed at every step (PROTOCOL 11.15)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from compactor.base.steps import Step
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.housekeeper.housekeeper import keep_house
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.publish import quarantine_moves
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.state.state_tables import QUARANTINES
from tests.crash.test_steps import assert_settled, watched, with_story
from tests.support import roles
from tests.support.forked import die
from tests.support.kept_tables import KeptTables
from tests.support.passes import clean_all, lose_cleaners
from tests.support.tables import rows_of, with_settings
from tests.support.watching import names_in

#: How often each is reached before the process dies, and which process that is.
CASES = [
    ("minor", Step.QUARANTINED, 1, roles.keeping_cleaner),
    ("major", Step.QUARANTINED, 3, roles.keeping_cleaner),
    ("minor", Step.QUARANTINE_RECORDED, 1, roles.keeping_cleaner),
    ("major", Step.QUARANTINE_RECORDED, 1, roles.keeping_cleaner),
    ("major", Step.REMOVED, 1, roles.keeping_cleaner),
    ("major", Step.QUARANTINE_GIVEN_UP, 1, roles.housekeeper),
]
STEPS = [step for _, step, _, _ in CASES]


def over(site: Site) -> None:
    """Lets the time pass for which everything is kept."""
    assert site.state is not None
    with site.state.database.write() as conn:
        conn.execute(update(QUARANTINES).values(UNTIL=1))


@pytest.mark.parametrize(("kind", "step", "nth", "role"), CASES, ids=lambda part: getattr(part, "name", None))
def test_a_crash_while_directories_are_kept_or_erased(
    deployment: Site,
    metastore_url: str,
    warehouse: Path,
    kept_tables: KeptTables,
    kind: str,
    step: Step,
    nth: int,
    role: Any,
) -> None:
    plain = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    table: Table = kept_tables.get(plain, warehouse, with_story)
    site = with_settings(plain, hive_txn_opentxn_timeout="1ms", compactor_quarantine="7d")
    wanted = rows_of(site, table)
    before = {f.path: f.length for f in site.storage.listing(table.location).files}
    with watched(site, table, wanted):
        request_compaction(site, table="default.t", type=kind)
        run_entries(site, list_claimable_ids(site), InProcessRunner())
        if role is roles.housekeeper:
            clean_all(site)
            over(site)
        die(role, metastore_url, step, nth)
        lose_cleaners(site)
        clean_all(site)
    assert rows_of(site, table) == wanted
    if role is roles.keeping_cleaner:
        (entry,) = [e for e in site.metastore.entries.history() if e.error is None][:1]
        record = quarantine_moves.read_record(site.storage, table.location, entry.id)
        assert record is not None
        assert record.kept.items() <= before.items()
        assert record.inputs is not None
        assert record.inputs.items() <= (record.kept | record.stays).items()
        over(site)
    keep_house(site)
    assert {name for name in names_in(warehouse / "t") if name.startswith(".")} == set()
    assert_settled(site, warehouse / "t")
    assert rows_of(site, table) == wanted
