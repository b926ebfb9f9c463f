from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.acid.tree import Tree
from compactor.base.errors import Disagreement
from compactor.compaction.queue_entry import Entity
from compactor.housekeeper.housekeeper import keep_house
from compactor.metastore.schema.tables import TXNS
from compactor.requests.overrides import override
from compactor.site.site import Site
from compactor.state.decisions import Decided
from compactor.state.seen_conditions import SeenEntity
from compactor.storage.local import LocalStorage
from tests.support.accidents import end_a_transaction, forget_components
from tests.support.backups import Backup, without_memory
from tests.support.passes import clean_all, compact, with_storage
from tests.support.tables import insert, make_table, rows_of, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_forget_grace="0s")


def passes(site: Site) -> None:
    """Makes every ended transaction an hour older."""
    hour = 3_600_000
    older = {"TXN_STARTED": TXNS.c.TXN_STARTED - hour, "TXN_LAST_HEARTBEAT": TXNS.c.TXN_LAST_HEARTBEAT - hour}
    with site.metastore.database.write() as conn:
        conn.execute(update(TXNS).values(**older))


@pytest.mark.parametrize("mode", ["observe", "request", "compact"])
def test_below_clean_housekeeping_is_left_to_hive(site: Site, mode: str) -> None:
    done = keep_house(with_settings(site, compactor_mode=mode))
    assert not done.acted
    assert done.to_json()["acted"] is False


def test_silent_transactions_time_out(site: Site, warehouse: Path) -> None:
    (silent,) = site.metastore.transactions.open("ann", "h")
    passes(site)
    (living,) = site.metastore.transactions.open("bob", "h")
    done = keep_house(site)
    assert (done.acted, done.timed_out) == (True, (silent,))
    assert site.metastore.transactions.state(silent) in ("a", None)
    assert site.metastore.transactions.state(living) == "o"


def test_history_is_kept_as_long_as_hive_keeps_it(site: Site, warehouse: Path) -> None:
    """By default, three successful rows per entity."""
    table = make_table(site, warehouse)
    insert(site, table, [0])
    for value in range(1, 6):
        insert(site, table, [value])
        compact(site)
        clean_all(site)
    before = [e.id for e in site.metastore.entries.history()]
    assert len(before) == 5
    assert keep_house(site).history_purged == 2
    assert [e.id for e in site.metastore.entries.history()] == before[:3]


def test_ended_transactions_are_forgotten_and_no_row_changes(site: Site, warehouse: Path) -> None:
    """PROTOCOL 8: but not the newest (PROTOCOL 9), nor an aborted one whose directory is there."""
    table = make_table(site, warehouse)
    insert(site, table, [1])
    insert(site, table, [2], commits=False)
    insert(site, table, [3])
    wanted = rows_of(site, table)
    passes(site)
    done = keep_house(site)
    assert done.transactions_forgotten > 0
    assert rows_of(site, table) == wanted
    newest = site.metastore.transactions.newest()
    passes(site)
    keep_house(site)
    assert site.metastore.transactions.state(newest) == "c"
    assert rows_of(site, table) == wanted


@pytest.mark.parametrize("mode", ["observe", "clean"])
def test_our_own_state_is_purged_in_every_mode(site: Site, mode: str) -> None:
    assert site.state is not None
    site = with_settings(site, compactor_mode=mode)
    entity = Entity(database="default", table="t")
    now = site.metastore.now_ms()
    for at in (1, now):
        site.state.decisions.record(site.name, [Decided(entity=entity, outcome="major", because="so")], at=at)
    seen = [
        SeenEntity(entity=replace(entity, table=name), outcome="major", because="so", at=at)
        for name, at in (("old", 1), ("new", now))
    ]
    site.state.conditions.record(site.name, seen)
    assert keep_house(site).state_purged == 2
    assert [s.entity.table for s in site.state.conditions.page(site.name, limit=9)] == ["new"]


def test_a_database_put_back_while_storage_is_searched_forgets_nothing(site: Site, warehouse: Path) -> None:
    """PROTOCOL 11.2.7: the number may be another transaction's there."""
    table = make_table(site, warehouse)
    insert(site, table, [1])
    backup = Backup(site.metastore.database.path)
    backup.take()
    insert(site, table, [2], commits=False)
    forget_components(site)
    shutil.rmtree(warehouse / "t" / "delta_0000002_0000002_0000")
    end_a_transaction(site)

    class PutBack(LocalStorage):
        def tree(self, path: str) -> Tree:
            found = super().tree(path)
            backup.restore()
            insert(without_memory(site), table, [3], commits=False)  # of the same number
            forget_components(site)
            end_a_transaction(site)
            return found

    with pytest.raises(Disagreement, match="the database is older"):
        keep_house(with_storage(site, PutBack()))
    assert rows_of(site, table) == [(1, 536936448, 0, 1, "row 1")]


@pytest.mark.parametrize("kept_by", ["table", "database", "override"])
def test_a_table_has_its_own_history_retention(site: Site, warehouse: Path, kept_by: str) -> None:
    """Stored in the metastore, or in our state by an override; the other table keeps what the site says."""
    key = "hive.compactor.history.retention.succeeded"
    own = make_table(site, warehouse, "own", database="lab")
    other = make_table(site, warehouse, "other")
    if kept_by == "table":
        site.metastore.embedded_catalog.set_table_parameter(own, f"compactor.{key}", "1")
    elif kept_by == "database":
        site.metastore.embedded_catalog.set_database_parameter("lab", f"compactor.{key}", "1")
    else:
        override(site, "lab.own", key, "1", "ann")
    for table in (own, other):
        insert(site, table, [0])
        for value in range(1, 5):
            insert(site, table, [value])
            compact(site, table=str(table))
            clean_all(site)
    keep_house(site)
    assert Counter(entry.entity.table for entry in site.metastore.entries.history()) == {"own": 1, "other": 3}
