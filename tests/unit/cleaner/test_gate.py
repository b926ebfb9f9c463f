"""The gate is read once for a group, and what it says stays true."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest
from sqlalchemy import event

from compactor.base.errors import StorageError
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner import cleaning_group
from compactor.cleaner import gate as gate_module
from compactor.cleaner.cleaner import clean
from compactor.cleaner.gate import Gate
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from tests.support.many import make_partitions
from tests.support.passes import compact, settle, with_storage
from tests.support.tables import insert, make_table, with_settings


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for value in (1, 2, 3):
        insert(site, table, [value])
    return table


def test_a_transaction_that_begins_later_is_above_it(site: Site, table: Table) -> None:
    """PROTOCOL 7.1: every transaction below the lowest open one has ended, and later ones are above it."""
    insert(site, table, [4], commits=False)
    [reader] = site.metastore.transactions.open("ann", "h")
    settle()
    gate = Gate(site, [])
    site.metastore.transactions.commit(reader)
    assert gate.lowest == reader == gate.txns.high_watermark + 1
    write_ids = gate.write_ids(table)
    assert (write_ids.high_watermark, sorted(write_ids.aborted)) == (4, [4])


def test_of_an_entry(site: Site, table: Table) -> None:
    compact(site)
    (entry,) = site.metastore.entries.queue()
    gate = Gate(site, [entry])
    assert (gate.txn_state(entry), gate.target(entry)) == ("c", site.target(entry.entity))
    site.metastore.embedded_catalog.drop_table(table)
    assert Gate(site, [entry]).target(entry) is None


def test_statements_do_not_grow_with_what_a_group_has_in_common(site: Site, warehouse: Path) -> None:
    """Questions to the metastore are asked for a whole group."""
    table = make_partitions(site.metastore, warehouse, 6, deltas=3, name="parted")
    counts: list[int] = []

    def counted() -> int:
        sent = 0

        def seen(*_: object) -> None:
            nonlocal sent
            sent += 1

        event.listen(site.metastore.database.engine, "before_cursor_execute", seen)
        try:
            assert clean(site).failed == ()
        finally:
            event.remove(site.metastore.database.engine, "before_cursor_execute", seen)
        return sent

    for numbers in ((0,), (1, 2, 3, 4, 5)):
        for number in numbers:
            request_compaction(site, table=str(table), partition=f"p={number:06d}", type="major")
        assert run_entries(site, list_claimable_ids(site), InProcessRunner()).failed == ()
        settle()
        counts.append(counted())
    assert site.metastore.entries.queue() == []
    assert counts[1] == counts[0], counts  # none is sent for each entry


def test_a_gate_that_is_old_when_something_is_to_be_removed_is_read_again(
    site: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PROTOCOL 7.1.5: what forbids cleaning meanwhile holds for the rest of the group, and for nobody longer than that."""
    monkeypatch.setattr(gate_module, "_FRESH_S", -1.0)
    monkeypatch.setattr(cleaning_group, "_HIDDEN_TOGETHER", 1)
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", hive_compactor_cleaner_threads_num="1")
    table = make_partitions(site.metastore, warehouse, 2, deltas=3, name="parted")
    request_compaction(site, table=str(table), type="major")
    assert run_entries(site, list_claimable_ids(site), InProcessRunner()).failed == ()
    settle()

    class Forbidding(LocalStorage):
        def remove_all(self, paths: Collection[str], *, durable: bool = True) -> Mapping[str, StorageError]:
            site.metastore.embedded_catalog.set_table_parameter(table, "no_cleanup", "true")
            return super().remove_all(paths, durable=durable)

    passed = clean(with_storage(site, Forbidding()))
    assert (len(passed.cleaned), [one.state for one in passed.ended]) == (1, [State.REFUSED])
