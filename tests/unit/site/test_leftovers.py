from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import delete

from compactor.base.errors import LockNotGranted, Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import TXNS
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site import leftovers
from compactor.site.site import Site
from compactor.site.view import compactor_view
from compactor.worker.ending import Result
from tests.support.lost_workers import begun
from tests.support.passes import compact
from tests.support.tables import entity_of, insert, make_table, with_settings
from tests.support.watching import names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, [1, 2])
    insert(site, table, [3])
    return table


@pytest.mark.parametrize("ended", ["committed", "forgotten"])
def test_only_what_txns_says_is_aborted_is_hidden(site: Site, table: Table, ended: str) -> None:
    """PROTOCOL 5, 6: a named directory may be visible to readers, and their only copy."""
    _, txn = begun(site, table)
    site.metastore.transactions.commit(txn)
    site.metastore.transactions.open("later", "h")
    if ended == "forgotten":
        with site.metastore.database.write() as conn:
            conn.execute(delete(TXNS).where(txn == TXNS.c.TXN_ID))
    target = site.target(entity_of(table))
    leftovers.clear_aborted(site, target, txn)
    leftovers.clear_leftovers(site, target)
    assert f"base_0000002_v{txn:07d}" in names_in(Path(table.location))


def test_what_is_staged_after_the_transactions_were_asked_stays(site: Site, table: Table) -> None:
    """PROTOCOL 3.1: its transaction may have been opened since. Removed, it would be named without these files."""
    place = Path(table.location)
    (place / ".compactor_w1_dead").mkdir()  # transaction 1 has ended
    target = site.target(entity_of(table))
    scan = leftovers.LeftoverScan(site, [target])
    (txn,) = site.metastore.transactions.open("writer", "h")
    staged = place / f".compactor_w{txn}_beef" / "out" / "1_delta_0000003_0000003_0000"
    staged.mkdir(parents=True)
    (staged / "bucket_00000").touch()
    assert scan.clear(target) == (".compactor_w1_dead",)
    assert (staged / "bucket_00000").exists()


def test_no_plan_beside_an_unfinished_compaction(site: Site, table: Table) -> None:
    """PROTOCOL 6: a planner hides or refuses; it never adds a second directory of one range."""
    _, txn = begun(site, table)
    target = site.target(entity_of(table))
    with pytest.raises(LockNotGranted, match=f"being written by transaction {txn}"):
        leftovers.refuse_beside_unfinished(site, target, compactor_view(site, target))
    site.metastore.transactions.abort(txn, "by hand")
    leftovers.clear_leftovers(site, target)
    leftovers.refuse_beside_unfinished(site, target, compactor_view(site, target))


def test_a_worker_plans_nothing_beside_an_unfinished_compaction(site: Site, table: Table) -> None:
    """PROTOCOL 6: its transaction is open, or was never opened here."""
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    for number, fate in ((txn, Result.WAITING), (9999, Result.REFUSED)):
        named = Path(table.location) / f"base_0000002_v{number:07d}"
        named.mkdir()
        before = names_in(Path(table.location))
        outcome = (
            compact(site)
            if fate is Result.WAITING
            else run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes[0]
        )
        assert (outcome.result, named.name in outcome.message) == (fate, True)
        assert names_in(Path(table.location)) == before
        named.rmdir()


def test_a_directory_of_a_transaction_that_was_never_opened_is_refused(site: Site, table: Table) -> None:
    (Path(table.location) / "base_0000002_v0009999").mkdir()
    target = site.target(entity_of(table))
    with pytest.raises(Refused, match="belongs to transaction 9999, which this metastore has not opened"):
        leftovers.refuse_beside_unfinished(site, target, compactor_view(site, target))
