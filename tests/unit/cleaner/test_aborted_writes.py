"""Aborted writes stay for a time after we first saw them aborted (PROTOCOL 11.7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.cleaner.aborted_writes import abort_candidates
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import State
from compactor.initiator.candidate_scan import CandidateScan
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import TBLS, TXNS
from compactor.site.site import Site
from compactor.state.state_tables import ABORTS
from tests.support.backups import Backup
from tests.support.passes import clean_all, compact, settle, time_out_all
from tests.support.tables import entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import names_in


def keen(site: Site, **values: str) -> Site:
    given = {"hive_compactor_abortedtxn_threshold": "0", "compactor_forget_grace": "1h"}
    return with_settings(site, hive_txn_opentxn_timeout="1ms", **(given | values))


@pytest.fixture
def site(deployment: Site) -> Site:
    return keen(deployment)


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    made = make_table(site, warehouse)
    for value in (1, 2, 3):
        insert(site, made, [value])
    return made


def end_the_grace(site: Site) -> None:
    assert site.state is not None
    with site.state.database.write() as conn:
        conn.execute(update(ABORTS).values(SEEN_AT=1))


def test_only_many_or_old_aborts_are_looked_for(site: Site, table: Table) -> None:
    insert(site, table, [9], commits=False)
    assert abort_candidates(site) == (entity_of(table),)
    assert abort_candidates(with_settings(site, hive_compactor_abortedtxn_threshold="1")) == ()
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).values(TXN_STARTED=1))
    assert abort_candidates(with_settings(site)) == (entity_of(table),)


def test_aborted_writes_are_removed_a_time_after_they_were_first_seen(site: Site, table: Table) -> None:
    """PROTOCOL 11.7"""
    insert(site, table, [9], commits=False)
    for _ in range(3):
        passed = clean(site)
        assert passed.cleaned == ()
        (waiting,) = passed.waiting
        assert "first seen aborted within compactor.forget.grace" in waiting.because
    assert "delta_0000004_0000004_0000" in names_in(Path(table.location))
    end_the_grace(site)
    (done,) = clean(site).cleaned
    assert done.removed == ("delta_0000004_0000004_0000",)
    assert site.metastore.components.aborted_writes(entity_of(table)) == []


def test_a_committed_insert_that_a_restored_metastore_timed_out_can_still_be_saved(
    site: Site, table: Table, tmp_path: Path
) -> None:
    """PROTOCOL 11.7: our time-out aborted it, and the cleaner removed its committed delta: 22 rows became 2."""
    backup, newer = Backup(tmp_path / "metastore.db"), Backup(tmp_path / "metastore.db")
    (open_one,) = site.metastore.transactions.open("ann", "h")
    backup.take()
    site.metastore.transactions.commit(open_one)
    insert(site, table, [4])
    newer.take()
    wanted = rows_of(site, table)
    backup.restore()
    time_out_all(site)
    for _ in range(3):
        compact(site) if not site.metastore.entries.queue() else None
        clean(site)
    newer.restore()
    assert rows_of(site, table) == wanted


def test_a_cleaned_compaction_leaves_young_aborted_writes_beside_its_base(site: Site, table: Table) -> None:
    """PROTOCOL 11.7: its request ends; they go with the next cleaning, or once there are many or old ones."""
    insert(site, table, [9], commits=False)
    insert(site, table, [4])
    wanted = rows_of(site, table)
    (base,) = compact(site).output
    settle()
    clean(site)
    assert names_in(Path(table.location)) == {base, "delta_0000004_0000004_0000"}
    assert [entry.state for entry in site.metastore.entries.history()] == [State.SUCCEEDED]
    assert site.metastore.components.aborted_writes(entity_of(table)) != []
    end_the_grace(site)
    clean(site)
    assert names_in(Path(table.location)) == {base}
    assert rows_of(site, table) == wanted


def test_the_initiator_requests_no_cleaning_of_what_must_stay(site: Site, table: Table) -> None:
    """PROTOCOL 11.7: it would do so in every pass. Where Hive's cleaner runs, it is Hive's to decide."""
    compact(site)
    settle()
    clean(site)
    for value in (4, 5):
        insert(site, table, [value], commits=False)
    as_hive_3 = {"hive_compactor_clean_aborts_using_cleaner": "false"}

    def outcome(mode: str = "clean") -> str:
        return (
            CandidateScan(keen(site, compactor_mode=mode, **as_hive_3), write=False).consider(entity_of(table)).outcome
        )

    assert outcome() == "notneeded"
    assert outcome("compact") == "cleanonly"
    clean(site)
    end_the_grace(site)
    assert outcome() == "cleanonly"


def test_a_directory_that_committed_and_aborted_writes_share_keeps_its_request(site: Site, table: Table) -> None:
    """PROTOCOL 11.7: a streaming writer's delta; what is aborted of it is not in the base."""
    insert(site, table, [8], commits=False)
    insert(site, table, [4])
    location = Path(table.location)
    shared = location / "delta_0000004_0000005"
    (location / "delta_0000005_0000005_0000").rename(shared)
    (location / "delta_0000004_0000004_0000" / "bucket_00000").rename(shared / "bucket_00007")
    wanted = rows_of(site, table)
    (base,) = compact(site).output
    settle()
    (waiting,) = [one for one in clean(site).waiting if one.entry_id]
    assert "delta_0000004_0000005: written by transactions that were first seen aborted" in waiting.because
    assert {base, shared.name} <= names_in(location)
    assert [entry.state for entry in site.metastore.entries.queue()] == [State.READY_FOR_CLEANING]
    end_the_grace(site)
    hasty = keen(site, compactor_forget_grace="0s")
    with site.metastore.database.write() as conn:
        conn.exec_driver_sql("UPDATE COMPACTION_QUEUE SET CQ_RETRY_RETENTION = 0, CQ_CLEANER_START = -1")
    clean(hasty)
    assert (names_in(location), rows_of(site, table)) == ({base}, wanted)


def test_nothing_is_removed_beside_an_output_that_may_be_the_only_copy(site: Site, table: Table) -> None:
    """PROTOCOL 11.5.4"""
    done = compact(site)
    clean_all(site)
    insert(site, table, [9], commits=False)
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(done.txn == TXNS.c.TXN_ID).values(TXN_STATE="a"))
    site = keen(site, compactor_forget_grace="0s")
    before = names_in(Path(table.location))
    (failed,) = clean(site).failed
    assert "may be the only copy" in failed.because
    assert names_in(Path(table.location)) == before
    assert len(before) == 2


def test_an_abort_under_the_name_of_a_view_ends_no_pass(site: Site, table: Table, warehouse: Path) -> None:
    """The table was dropped, or is another catalog's, and a view has its name: rows of transactions do not say which."""
    view = make_table(site, warehouse, "v")
    written = Entity(database="default", table="v", partition="p=1")
    (txn,) = site.metastore.transactions.open("ann", "h")
    site.metastore.write_ids.add_component(txn, written, "i", site.metastore.write_ids.allocate(txn, "default", "v"))
    site.metastore.transactions.abort(txn, "by hand")
    with site.metastore.database.write() as conn:
        conn.execute(update(TBLS).where(view.id == TBLS.c.TBL_ID).values(TBL_TYPE="VIRTUAL_VIEW"))
    insert(site, table, [9], commits=False)
    assert abort_candidates(site) == (entity_of(table), written)
