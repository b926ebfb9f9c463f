from __future__ import annotations

from pathlib import Path

import pytest

from compactor.acid.names import staging_name
from compactor.base.errors import NotFound, Refused, StorageError
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.queue.worker_claims import ABORT_MESSAGE
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.abort import abort_compaction
from compactor.requests.request import request_compaction
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support.passes import Hides, compact, with_storage
from tests.support.tables import insert, leave_manifest, make_table, rows_of, with_settings
from tests.support.watching import Interrupted, names_in

WORKER = "compactor-worker-gone"


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, range(4))
    insert(site, table, range(4, 8))
    return table


def working(site: Site, table: Table) -> Entry:
    """A dead worker that had staged and named directories."""
    (asked,) = request_compaction(site, table=str(table))
    assert asked.entry_id is not None
    entry = site.metastore.claims.claim(WORKER, "1", pool_timeout_ms=0, ids=[asked.entry_id])
    assert entry is not None
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION, agent=WORKER)
    recorded = site.metastore.claims.record(entry, WORKER, txn, "w", WriteId(2))
    (Path(table.location) / staging_name(txn) / "out").mkdir(parents=True)
    named = Path(table.location) / f"base_0000002_v{txn:07d}"
    named.mkdir()
    (named / "bucket_00000").write_bytes(b"x")
    leave_manifest(table, txn, named.name)
    return recorded


def test_nothing_of_an_aborted_compaction_is_visible(site: Site, table: Table) -> None:
    """PROTOCOL 6: it is aborted, its named directories are hidden, its staging is removed; cancelled is ``x``."""
    wanted = rows_of(site, table)
    entry = working(site, table)
    told = abort_compaction(site, entry.id)
    assert (told.state, told.error) == (State.ABORTED, ABORT_MESSAGE)
    names = names_in(Path(table.location))
    assert staging_name(entry.txn_id or TxnId(0)) not in names
    assert not [name for name in names if name.startswith("base_")]
    assert rows_of(site, table) == wanted
    assert compact(site).result is Result.COMPACTED


def test_its_named_directories_are_hidden_before_its_locks_go(site: Site, table: Table) -> None:
    """PROTOCOL 6: otherwise readers without visibility see half of a pair as soon as they get the lock."""
    entry = working(site, table)
    assert entry.txn_id is not None
    request = site.target(entry.entity).lock(LockType.EXCLUSIVE)
    assert site.metastore.locks.try_acquire(entry.txn_id, [request], site.user, site.host) is not None
    disk = Hides(site)
    abort_compaction(with_storage(site, disk), entry.id)
    assert disk.seen == [(f"base_0000002_v{entry.txn_id:07d}", [entry.txn_id])]
    assert site.metastore.locks.show() == []


def test_a_waiting_request_is_removed_from_the_queue(site: Site, table: Table) -> None:
    (asked,) = request_compaction(site, table=str(table))
    assert asked.entry_id is not None
    assert abort_compaction(site, asked.entry_id).state is State.ABORTED
    with pytest.raises(NotFound):
        abort_compaction(site, asked.entry_id)


def test_directories_that_cannot_be_removed_are_left_to_the_next_pass(
    site: Site, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = working(site, table)
    with monkeypatch.context() as patched:

        def refuse(path: str) -> None:
            raise StorageError(f"{path}: permission denied")

        patched.setattr(site.storage, "remove", refuse)
        told = abort_compaction(site, entry.id)
        assert (told.state, told.error) == (State.WORKING, ABORT_MESSAGE)
    (made_good,) = repair(site)
    assert (made_good.entry.id, made_good.result) == (entry.id, State.ABORTED)
    assert site.metastore.entries.get(entry.id).state is State.ABORTED
    assert site.metastore.entries.queue() == []


def test_a_mode_that_may_not_touch_storage_leaves_it_to_the_workers(site: Site, table: Table) -> None:
    entry = working(site, table)
    before = names_in(Path(table.location))
    asking = with_settings(site, compactor_mode="request")
    assert abort_compaction(asking, entry.id).state is State.WORKING
    assert names_in(Path(table.location)) == before
    assert site.metastore.transactions.state(entry.txn_id or TxnId(0)) == "a"
    repair(site)
    assert site.metastore.entries.get(entry.id).state is State.ABORTED


def test_a_worker_notices_between_two_units_and_ends_its_row(site: Site, table: Table) -> None:
    before = names_in(Path(table.location))
    asking = with_settings(site, compactor_mode="request")

    def abort() -> None:
        (entry,) = site.metastore.entries.queue()
        abort_compaction(asking, entry.id)

    outcome = compact(site, runner=Interrupted(before=abort))
    assert outcome.result is Result.ABORTED
    assert "is no longer open" in outcome.message
    (row, *_) = site.metastore.entries.history()
    assert (row.id, row.state, row.error) == (outcome.entry.id, State.ABORTED, ABORT_MESSAGE)
    assert site.metastore.entries.queue() == []
    assert names_in(Path(table.location)) == before


def test_what_is_committed_stays(site: Site, table: Table) -> None:
    outcome = compact(site)
    with pytest.raises(Refused, match="ready for cleaning; only one that is initiated, or"):
        abort_compaction(site, outcome.entry.id)
    assert site.metastore.entries.get(outcome.entry.id).state is State.READY_FOR_CLEANING
