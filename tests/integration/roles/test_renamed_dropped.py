"""A compaction whose table is dropped or renamed meanwhile leaves a clear row, and no file out of place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from compactor.batches.assembly import list_claimable_ids
from compactor.cleaner.cleaner import clean
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import TBLS
from compactor.requests.request import request_compaction
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from compactor.worker.ending import Outcome, Result
from compactor.worker.under_way import Options
from tests.support.passes import clean_all, work
from tests.support.tables import insert, make_table, rows_of, with_settings
from tests.support.watching import Interrupted, names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, range(4))
    insert(site, table, range(4, 8))
    return table


def requested(site: Site) -> int:
    (asked,) = request_compaction(site, table="default.t", type="major")
    assert asked.entry_id is not None
    return asked.entry_id


def worked(site: Site, entry: int, meanwhile: Callable[[], object] = lambda: None) -> Outcome:
    """The entry's compaction; ``meanwhile`` when its units are done and staged."""
    outcome = work(site, entry, Interrupted(after=meanwhile), Options())
    assert outcome is not None
    return outcome


def moves(site: Site, table: Table, warehouse: Path) -> Callable[[], object]:
    """Renames a managed table: its directory moves, and its rows have the new name."""

    def rename() -> None:
        (warehouse / "t").rename(warehouse / "t2")
        site.metastore.embedded_catalog.rename_table(table, "t2", location=str(warehouse / "t2"))

    return rename


def vanish(site: Site) -> None:
    """DROP where nobody deletes the records: Hive's listener is off."""
    with site.metastore.database.write() as conn:
        conn.execute(update(TBLS).values(TBL_NAME="gone"))


def test_renamed_before_it_is_claimed(site: Site, table: Table, warehouse: Path) -> None:
    entry, wanted = requested(site), rows_of(site, table)
    moves(site, table, warehouse)()
    outcome = worked(site, entry)
    assert (outcome.result, str(outcome.entry.entity)) == (Result.COMPACTED, "default.t2")
    clean_all(site)
    assert rows_of(site, site.metastore.catalog.table("default", "t2")) == wanted


def test_renamed_where_it_is_while_it_is_compacted(site: Site, table: Table) -> None:
    """An external location stays: the same table, the same place, the same write IDs under the new name."""
    entry, wanted = requested(site), rows_of(site, table)
    outcome = worked(site, entry, lambda: site.metastore.embedded_catalog.rename_table(table, "t2"))
    assert outcome.result is Result.COMPACTED
    row = site.metastore.entries.get(entry)
    assert (row.state, str(row.entity)) == (State.READY_FOR_CLEANING, "default.t2")
    clean_all(site)
    assert rows_of(site, site.metastore.catalog.table("default", "t2")) == wanted
    assert site.metastore.entries.get(entry).state is State.SUCCEEDED


def test_renamed_and_moved_while_it_is_compacted(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 5: the location is checked again before anything is named; then it waits under its new name."""
    entry, wanted = requested(site), rows_of(site, table)
    outcome = worked(site, entry, moves(site, table, warehouse))
    assert outcome.result is Result.LOST
    assert "dropped, renamed or moved" in outcome.message
    assert list((warehouse / "t").rglob("*")) == []
    repair(site)
    renamed = site.metastore.catalog.table("default", "t2")
    assert rows_of(site, renamed) == wanted
    row = site.metastore.entries.get(entry)
    assert (row.state, str(row.entity)) == (State.INITIATED, "default.t2")
    assert not [name for name in names_in(warehouse / "t2") if name.startswith(".")]
    assert worked(site, entry).result is Result.COMPACTED
    assert rows_of(site, renamed) == wanted


def test_renamed_before_it_is_cleaned(site: Site, table: Table, warehouse: Path) -> None:
    entry, wanted = requested(site), rows_of(site, table)
    worked(site, entry)
    moves(site, table, warehouse)()
    clean_all(site)
    row = site.metastore.entries.get(entry)
    assert (row.state, str(row.entity)) == (State.SUCCEEDED, "default.t2")
    assert [name for name in names_in(warehouse / "t2") if name.startswith("delta")] == []
    assert rows_of(site, site.metastore.catalog.table("default", "t2")) == wanted


@pytest.mark.parametrize("when", ["before the claim", "before the commit", "before the cleaning"])
def test_dropped_with_its_records(when: str, site: Site, table: Table) -> None:
    """Hive's DROP takes the queue row along: whoever works on it finds it gone and changes nothing."""
    entry = requested(site)

    def drop() -> None:
        site.metastore.embedded_catalog.drop_table(table)

    if when == "before the claim":
        drop()
        assert work(site, entry, Interrupted(), Options()) is None
    elif when == "before the commit":
        outcome = worked(site, entry, drop)
        assert outcome.result is Result.LOST
        assert "no longer in the queue" in outcome.message
    else:
        worked(site, entry)
        drop()
        clean(site)
    assert site.metastore.entries.queue() == site.metastore.entries.history() == []
    assert site.metastore.transactions.open_transactions() == []
    assert list_claimable_ids(site) == []


@pytest.mark.parametrize("when", ["before the claim", "before the commit", "before the cleaning"])
def test_dropped_without_its_records(when: str, site: Site, table: Table) -> None:
    """The row ends in the history and says that the table is gone."""
    entry = requested(site)
    if when == "before the claim":
        vanish(site)
        worked(site, entry)
    elif when == "before the commit":
        worked(site, entry, lambda: vanish(site))
        repair(site)
    else:
        worked(site, entry)
        vanish(site)
        clean_all(site)
    row = site.metastore.entries.get(entry)
    assert row.state in (State.REFUSED, State.SUCCEEDED if when == "before the cleaning" else State.REFUSED)
    assert when == "before the cleaning" or "default.t is not in the metastore" in (row.error or "")
    assert site.metastore.entries.queue() == []
    assert site.metastore.transactions.open_transactions() == []
