"""``compactor.naming.delay``: what an open transaction does not see is left alone until it has ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList, ValidWriteIdList
from compactor.base.errors import NotEnoughHistory
from compactor.base.ids import NOTHING_OPEN, TxnId
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from demo.snapshot_reader import read_snapshot
from tests.support.passes import clean_all, compact
from tests.support.tables import delete, entity_of, insert, make_table, rows_of, with_settings
from tests.support.watching import names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_naming_delay="true")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for start in (0, 10):
        insert(site, table, range(start, start + 10))
    return table


def older_query(site: Site, table: Table) -> tuple[TxnId, Callable[[], list[Any]]]:
    """A query of Trino's that goes on: its write IDs are those of its beginning, directories are listed when it reads."""
    (txn,) = site.metastore.transactions.open("trino", "coordinator")
    write_ids: ValidWriteIdList = site.write_ids(table, site.metastore.transactions.snapshot(txn))

    def look() -> list[Any]:
        everything = ValidTxnList(high_watermark=TxnId(NOTHING_OPEN))
        directory = acid_directory(LocalStorage().listing(table.location), write_ids, everything)
        batches = read_snapshot(table.location, directory, write_ids, site.target(entity_of(table)).row_type)
        return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())

    return txn, look


@pytest.mark.parametrize("kind", ["major", "minor"])
def test_a_query_that_is_older_than_the_newest_input_reads_on(site: Site, table: Table, kind: str) -> None:
    """PROTOCOL 5: what was written after it began is left to a later compaction."""
    query, look = older_query(site, table)
    shown = look()
    insert(site, table, range(20, 30))
    delete(site, table, [21])
    wanted = rows_of(site, table)
    outcome = compact(site, kind)
    assert outcome.result is Result.COMPACTED
    named = "base_0000002" if kind == "major" else "delta_0000001_0000002"
    assert [name.partition("_v")[0] for name in outcome.output] == [named]
    assert look() == shown
    assert rows_of(site, table) == wanted
    site.metastore.transactions.commit(query)
    clean_all(site)
    again = compact(site, "major")
    assert [name.partition("_v")[0] for name in again.output] == ["base_0000004"]
    assert rows_of(site, table) == wanted


def test_without_it_such_a_query_fails(site: Site, table: Table) -> None:
    """The purpose of the option."""
    _, look = older_query(site, table)
    insert(site, table, range(20, 30))
    plain = with_settings(site, hive_txn_opentxn_timeout="1ms")
    assert [name.partition("_v")[0] for name in compact(plain).output] == ["base_0000003"]
    with pytest.raises(NotEnoughHistory):
        look()


def test_what_it_does_not_see_at_all_waits_in_the_queue(site: Site, warehouse: Path) -> None:
    """The request goes back, without a lock or transaction of its own, and is done once the query has ended."""
    table = make_table(site, warehouse)
    (query,) = site.metastore.transactions.open("trino", "coordinator")
    for start in (0, 10):
        insert(site, table, range(start, start + 10))
    before, wanted = names_in(Path(table.location)), rows_of(site, table)
    outcome = compact(site)
    assert outcome.result is Result.WAITING
    assert "compactor.naming.delay is set" in outcome.message
    assert [entry.state for entry in site.metastore.entries.queue()] == [State.INITIATED]
    assert [txn.id for txn in site.metastore.transactions.open_transactions()] == [query]
    assert site.metastore.locks.show() == []
    assert names_in(Path(table.location)) == before
    site.metastore.transactions.commit(query)
    (done,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert done.result is Result.COMPACTED
    assert rows_of(site, table) == wanted


def test_a_base_that_is_too_new_for_it_is_not_gone_behind(site: Site, table: Table) -> None:
    """A base of before the option was set: nothing below it is worth a compaction."""
    (query,) = site.metastore.transactions.open("trino", "coordinator")
    insert(site, table, range(20, 30))
    compact(with_settings(site, hive_txn_opentxn_timeout="1ms"))
    for start in (30, 40):
        insert(site, table, range(start, start + 10))
    site.metastore.transactions.heartbeat(query)
    plain = with_settings(site, hive_txn_opentxn_timeout="1ms", compactor_naming_delay="true")
    (entry,) = site.metastore.entries.queue()
    assert entry.state is State.READY_FOR_CLEANING
    assert compact(plain).result is Result.WAITING


def test_a_table_may_say_so_for_itself(site: Site, warehouse: Path) -> None:
    table = make_table(site, warehouse, "own", **{"compactor.compactor.naming.delay": "false"})
    assert not site.target(entity_of(table)).settings.boolean("compactor.naming.delay")
