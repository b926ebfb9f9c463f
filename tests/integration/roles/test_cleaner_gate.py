"""Readers with open transactions hold back the cleaner, which names them (PROTOCOL 7.1)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from compactor.acid.directory import acid_directory
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import CleanerPass, clean
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from tests.support.passes import settle
from tests.support.tables import insert, make_table, rows_of, with_settings
from tests.support.watching import Interrupted, names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    for start in (0, 10, 20):
        insert(site, table, range(start, start + 4))
    return table


def compact(site: Site, runner: Any = None) -> None:
    request_compaction(site, table="default.t", type="major")
    done = run_entries(site, list_claimable_ids(site), runner or InProcessRunner())
    assert [o.result for o in done.outcomes] == [Result.COMPACTED]


def cleaned_by_now(site: Site) -> CleanerPass:
    """The pass that cleans; a commit is settled a millisecond after it (hive.txn.opentxn.timeout)."""
    settle()
    return clean(site)


@pytest.mark.parametrize("kind", [TxnType.DEFAULT, TxnType.READ_ONLY, TxnType.COMPACTION], ids=lambda k: k.name)
def test_an_open_transaction_of_any_type_keeps_the_cleaner_away_and_is_named(
    site: Site, table: Table, warehouse: Path, kind: TxnType
) -> None:
    """PROTOCOL 7.1: the lowest TXN_ID of all types in state ``o``, never a snapshot list, which leaves some out."""
    wanted = rows_of(site, table)
    (reader,) = site.metastore.transactions.open("ann", "laptop", type=kind, agent="beeline")
    before = names_in(warehouse / "t")
    compact(site)
    for _ in range(3):
        passed = clean(site)
        assert passed.cleaned == ()
        (waiting,) = passed.waiting
        assert str(reader) in waiting.because
        (blocker,) = waiting.blockers
        assert (blocker.txn, blocker.user, blocker.host, blocker.agent) == (reader, "ann", "laptop", "beeline")
        assert blocker.type == kind.name.lower()
        assert blocker.age_ms >= 0
        assert passed.to_json()["waiting"][0]["blockers"][0]["txnid"] == reader  # type: ignore[index]
    assert before < names_in(warehouse / "t")
    site.metastore.transactions.commit(reader)
    passed = cleaned_by_now(site)
    assert [set(c.removed) for c in passed.cleaned] == [before]
    (base,) = names_in(warehouse / "t")
    assert base.startswith("base_0000003_v")
    assert rows_of(site, table) == wanted


def test_a_transaction_whose_rows_name_another_table_is_waited_for(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 7.1: what MIN_HISTORY_WRITE_ID says about a transaction is not all that it may read. Its next statement
    reads this table with the snapshot that it has had since its beginning, which does not see the base (ADR 28)."""
    site = with_settings(site, hive_txn_use_minhistorywriteid="true", hive_txn_opentxn_timeout="1ms")
    insert(site, make_table(site, warehouse, "other"), [1])
    (reader,) = site.metastore.transactions.open("ann", "laptop")
    snapshot = site.metastore.transactions.snapshot(reader)
    site.metastore.write_ids.hold(reader, site.metastore.write_ids.valid("default", "other", snapshot))
    before = names_in(warehouse / "t")
    compact(site)
    passed = cleaned_by_now(site)
    assert [blocker.txn for waiting in passed.waiting for blocker in waiting.blockers] == [reader]
    assert before < names_in(warehouse / "t")
    write_ids = site.metastore.write_ids.valid("default", "t", snapshot)
    found = acid_directory(LocalStorage().listing(table.location), write_ids, snapshot)
    assert {d.directory for d in found.deltas} == before
    site.metastore.transactions.commit(reader)
    passed = cleaned_by_now(site)
    assert [set(done.removed) for done in passed.cleaned] == [before], passed


def test_a_reader_that_opened_while_the_compaction_ran_is_waited_for(site: Site, table: Table, warehouse: Path) -> None:
    """PROTOCOL 7.1: the gate is strict. CQ_NEXT_TXN_ID is that reader's own id, and it doesn't see the new base."""
    readers = []
    compact(site, Interrupted(before=lambda: readers.append(site.metastore.transactions.open("ann", "laptop")[0])))
    (entry,) = site.metastore.entries.queue()
    assert entry.next_txn_id == readers[0]
    before = names_in(warehouse / "t")
    (waiting,) = clean(site).waiting
    assert [b.txn for b in waiting.blockers] == readers
    assert names_in(warehouse / "t") == before
    site.metastore.transactions.abort(readers[0], "by hand")
    assert len(cleaned_by_now(site).cleaned) == 1


def test_a_reader_that_opened_after_the_commit_does_not_matter(site: Site, table: Table) -> None:
    compact(site)
    site.metastore.transactions.open("ann", "laptop")
    assert len(cleaned_by_now(site).cleaned) == 1
    assert site.metastore.entries.history()[0].state is State.SUCCEEDED


def test_nothing_is_cleaned_while_ids_below_may_still_appear(deployment: Site, warehouse: Path) -> None:
    """PROTOCOL 7.1: ids younger than hive.txn.opentxn.timeout may still be on their way into TXNS."""
    site = with_settings(deployment, hive_txn_opentxn_timeout="1h")
    table = make_table(site, warehouse)
    insert(site, table, range(4))
    insert(site, table, range(4, 8))
    compact(site)
    before = names_in(warehouse / "t")
    passed = clean(site)
    assert (passed.cleaned, len(passed.waiting)) == ((), 1)
    assert passed.waiting[0].blockers == ()
    assert names_in(warehouse / "t") == before


def test_what_a_later_compaction_replaced_is_not_the_earlier_ones_to_remove(
    site: Site, table: Table, warehouse: Path
) -> None:
    """PROTOCOL 7.1: only the second has to wait for a reader that opened between the two; both have the same highest write
    ID.
    """
    compact(site)
    cleaned_by_now(site)
    for start in (30, 40):
        insert(site, table, range(start, start + 4))
    request_compaction(site, table="default.t", type="minor")
    (first,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    (elsewhere,) = site.metastore.transactions.open("ann", "laptop")  # it writes to another partition, say
    site.metastore.write_ids.allocate(elsewhere, "default", "t")
    site.metastore.transactions.commit(elsewhere)
    settle()
    (reader,) = site.metastore.transactions.open("ann", "laptop")
    compact(site)
    entry, second = site.metastore.entries.queue()
    assert entry.highest_write_id == second.highest_write_id
    passed = clean(site)
    assert [one.entry_id for one in passed.cleaned] == [first.entry.id]
    assert [one.entry_id for one in passed.waiting] == [second.id]
    assert set(first.output) < names_in(warehouse / "t")  # the reader reads it
    site.metastore.transactions.commit(reader)
    cleaned_by_now(site)
    assert not set(first.output) & names_in(warehouse / "t")


def test_an_old_reader_still_reads_its_snapshot_when_a_second_compaction_waits(
    site: Site, table: Table, warehouse: Path
) -> None:
    """Two compactions of one table wait behind the reader; both go in one or two passes after it."""
    (reader,) = site.metastore.transactions.open("ann", "laptop")
    compact(site)
    insert(site, table, range(40, 44))
    compact(site)
    assert clean(site).cleaned == ()
    assert len([n for n in names_in(warehouse / "t") if n.startswith("delta")]) == 4
    site.metastore.transactions.commit(reader)
    for _ in range(100):
        clean(site)
        if not site.metastore.entries.queue():
            break
    assert [n[:12] for n in names_in(warehouse / "t")] == ["base_0000004"]
    assert {e.state for e in site.metastore.entries.history()} == {State.SUCCEEDED}
