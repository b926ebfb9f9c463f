"""compactor.mode in the metastore, a database and a table: the tightest one wins, in every role (DESIGN 2)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.acid.names import staging_name
from compactor.answers.explain import explain
from compactor.answers.preview import preview
from compactor.answers.show_compactions import show_compactions, show_history
from compactor.answers.show_locks import show_locks
from compactor.answers.show_rows import show_blockers, show_transactions
from compactor.answers.survey import survey_tables
from compactor.base.errors import Refused
from compactor.base.ids import WriteId
from compactor.batches.assembly import list_claimable_ids, plan_batches
from compactor.batches.driver import run_batch, run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.states import State
from compactor.doctor.checks import doctor
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.initiator import initiate
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import TXNS
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support.tables import delete, insert, make_table, with_settings
from tests.support.watching import files_below, names_in, rows_of_database

MODES = ("observe", "request", "compact", "clean")


def at_level(site: Site, table: Table, level: str, mode: str) -> Site:
    """Sets ``mode`` at one level only; otherwise the metastore's own is ``clean``."""
    metastore = mode if level == "metastore" else "clean"
    site.metastore.embedded_catalog.set_database_parameter(
        "default", "compactor.mode", mode if level == "database" else None
    )
    site.metastore.embedded_catalog.set_table_parameter(table, "compactor.mode", mode if level == "table" else None)
    return with_settings(
        site,
        compactor_mode=metastore,
        hive_txn_opentxn_timeout="1ms",
        hive_compactor_delta_num_threshold="1",
    )


@pytest.mark.parametrize("level", ["metastore", "database", "table"])
def test_every_role_does_what_the_mode_allows_and_no_more(deployment: Site, warehouse: Path, level: str) -> None:
    table = make_table(deployment, warehouse)
    for number, mode in enumerate(MODES):
        for start in (0, 4):
            insert(deployment, table, range(100 * number + start, 100 * number + start + 4))
        site = at_level(deployment, table, level, mode)
        asks, compacts, cleans = number >= 1, number >= 2, number >= 3

        (considered,) = initiate(site).considered
        assert considered.outcome in ("minor", "major"), considered
        assert (considered.entry_id is not None) is asks
        if not asks:
            with pytest.raises(Refused, match=r"compactor\.mode is observe"):
                request_compaction(site, table="default.t")
            request_compaction(at_level(deployment, table, level, "clean"), table="default.t")
            site = at_level(deployment, table, level, mode)
        (entry,) = site.metastore.entries.queue()

        assert list_claimable_ids(site) == ([entry.id] if compacts else [])
        done = run_entries(site, [entry.id], InProcessRunner())  # also when it is named outright
        assert [o.result for o in done.outcomes] == ([Result.COMPACTED] if compacts else [])
        (entry,) = site.metastore.entries.queue()
        assert entry.state is (State.READY_FOR_CLEANING if compacts else State.INITIATED)
        if not compacts:
            site = at_level(deployment, table, level, "clean")
            run_entries(site, [entry.id], InProcessRunner())
            site = at_level(deployment, table, level, mode)

        before = files_below(warehouse)
        for _ in range(3):
            passed = clean(site)
            if cleans and passed.cleaned:
                break
        assert (len(passed.cleaned) == 1) is cleans
        assert (files_below(warehouse) == before) is not cleans
        site = at_level(deployment, table, level, "clean")
        while site.metastore.entries.queue():
            clean(site)


@pytest.mark.parametrize(
    ("of_metastore", "of_database", "of_table"),
    [("observe", "clean", "clean"), ("clean", "request", "clean"), ("compact", "clean", "observe")],
)
def test_the_tightest_mode_wins(
    deployment: Site, warehouse: Path, of_metastore: str, of_database: str, of_table: str
) -> None:
    table = make_table(deployment, warehouse)
    for start in (0, 4):
        insert(deployment, table, range(start, start + 4))
    request_compaction(deployment, table="default.t")
    deployment.metastore.embedded_catalog.set_database_parameter("default", "compactor.mode", of_database)
    deployment.metastore.embedded_catalog.set_table_parameter(table, "compactor.mode", of_table)
    site = with_settings(deployment, compactor_mode=of_metastore)
    assert list_claimable_ids(site) == []


def test_a_batch_whose_table_was_taken_away_from_us_meanwhile(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    for start in (0, 4):
        insert(deployment, table, range(start, start + 4))
    request_compaction(deployment, table="default.t")
    (batch,) = plan_batches(deployment)
    deployment.metastore.embedded_catalog.set_table_parameter(table, "compactor.mode", "request")
    before = files_below(warehouse)
    assert run_batch(deployment, batch.batch_id, InProcessRunner()).outcomes == ()
    assert files_below(warehouse) == before
    assert [e.state for e in deployment.metastore.entries.queue()] == [State.INITIATED]


def test_a_request_for_what_cannot_be_listed_is_left_to_hive_too(deployment: Site, warehouse: Path) -> None:
    """An error is no reason to act where the mode says that others do."""
    table = make_table(deployment, warehouse)
    insert(deployment, table, range(4))
    request_compaction(deployment, table="default.t")
    os.rename(warehouse / "t", warehouse / "elsewhere")
    deployment.metastore.embedded_catalog.set_table_parameter(table, "compactor.mode", "request")
    assert list_claimable_ids(deployment) == []
    assert plan_batches(deployment) == []
    deployment.metastore.embedded_catalog.set_table_parameter(table, "compactor.mode", None)
    assert len(list_claimable_ids(deployment)) == 1


# --- observe: nothing changes anywhere --------------------------------------------------------------------------------


def busy(deployment: Site, warehouse: Path) -> None:
    """Prepares something for every role: a request, an entry to clean, a lost worker, aborts, a transaction that timed
    out.
    """
    for name in ("cleaned", "waiting", "lost", "asked"):
        table = make_table(deployment, warehouse, name)
        for start in (0, 4):
            insert(deployment, table, range(start, start + 4))
        insert(deployment, table, range(8, 12), commits=False)
        delete(deployment, table, [1])
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_forget_grace="0s")
    for name in ("cleaned", "waiting"):
        request_compaction(site, table=name)
        run_entries(site, list_claimable_ids(site), InProcessRunner())
        while name == "cleaned" and site.metastore.entries.queue():
            clean(site)
    request_compaction(site, table="lost")
    (entry,) = [e for e in site.metastore.entries.queue() if e.entity.table == "lost"]
    leave_half_done(site, entry.id, warehouse / "lost")
    request_compaction(site, table="asked")
    site.metastore.transactions.open("ann", "laptop")
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=0))
    states = {e.state for e in site.metastore.entries.queue()}
    assert states == {State.INITIATED, State.WORKING, State.READY_FOR_CLEANING}


def leave_half_done(site: Site, entry_id: int, location: Path) -> None:
    """Leaves what remains when a worker dies after naming: a working row, an open transaction, a twin."""
    claimed = site.metastore.claims.claim("compactor-worker-gone", "1", pool_timeout_ms=0, ids=[entry_id])
    assert claimed is not None
    txn = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION, agent="compactor-worker-gone")[0]
    site.metastore.claims.record(claimed, "compactor-worker-gone", txn, "w", WriteId(2))
    shutil.copytree(location / "delta_0000001_0000001_0000", location / f"delta_0000001_0000002_v{txn:07d}")
    (location / staging_name(txn) / "out").mkdir(parents=True)


def passes(site: Site) -> dict[str, Callable[[], object]]:
    entries = [e.id for e in site.metastore.entries.queue()]
    return {
        "initiator": lambda: initiate(site),
        "worker": lambda: run_entries(site, list_claimable_ids(site), InProcessRunner()),
        "worker of all": lambda: run_entries(site, entries, InProcessRunner()),
        "cleaner": lambda: clean(site),
        "housekeeper": lambda: keep_house(site),
        "explain": lambda: [explain(site, name) for name in ("lost", "asked", "waiting", "cleaned")],
        "doctor": lambda: doctor(site),
        "survey": lambda: survey_tables(site),
        "preview": lambda: preview(site, "asked", type="major"),
        "show": lambda: [
            look(site)
            for look in (
                show_compactions,
                show_history,
                show_transactions,
                show_locks,
                show_blockers,
            )
        ],
    }


def test_observe_changes_no_row_and_no_file(
    deployment: Site, warehouse: Path, tmp_path: Path, metastore_url: str
) -> None:
    """Mode observe: a row-level diff of the database and a file-level diff of the warehouse are empty after every pass.

    Three times: the database opened for reading only as ``observe`` does it, then from a file that is read-only, then
    opened for writing, so that no pass relies on the door being locked.
    """
    busy(deployment, warehouse)
    database = tmp_path / "metastore.db"
    flags = {"compactor.mode": "observe", "hive.txn.opentxn.timeout": "1ms", "hive.compactor.delta.num.threshold": "1"}
    configuration = configure(flags=flags, environment={"COMPACTOR_METASTORE_URL": metastore_url})
    before = rows_of_database(database), files_below(warehouse)

    def nothing_changes(site: Site) -> None:
        for name, run in passes(site).items():
            run()
            assert rows_of_database(database) == before[0], name
            assert files_below(warehouse) == before[1], name

    with open_site(configuration) as site:
        assert site.metastore.database.read_only
        assert site.state is None
        nothing_changes(site)
    observing = with_settings(deployment, compactor_mode="observe", hive_compactor_delta_num_threshold="1")
    nothing_changes(replace(observing, state=None))
    deployment.metastore.close()
    database.chmod(0o444)
    with open_site(configuration) as site:
        nothing_changes(site)


def test_mode_request_repairs_nothing(deployment: Site, warehouse: Path, tmp_path: Path) -> None:
    """PROTOCOL 6: modes observe and request only report what dead transactions left."""
    busy(deployment, warehouse)
    site = with_settings(deployment, compactor_mode="request", hive_txn_opentxn_timeout="1ms")
    before = files_below(warehouse)
    assert (clean(site).repaired, run_entries(site, list_claimable_ids(site), InProcessRunner()).repaired) == ((), ())
    assert initiate(site).repaired == ()
    assert files_below(warehouse) == before
    assert State.WORKING in {e.state for e in site.metastore.entries.queue()}
    acting = with_settings(deployment, compactor_mode="compact")
    (repaired,) = clean(acting).repaired
    assert repaired.entry.entity.table == "lost"
    assert not any(n.startswith((".compactor_v", "delta_0000001_0000002")) for n in names_in(warehouse / "lost"))
