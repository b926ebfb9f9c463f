from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.base.errors import CompactorError
from compactor.base.ids import WriteId
from compactor.batches import control
from compactor.batches.assembly import plan_batches
from compactor.batches.control import BatchStatus, read_batch
from compactor.batches.driver import Application, run_batch
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.locking.lock_types import LockType
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.abort import abort_compactions
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site, own_state
from compactor.worker.ending import Result
from tests.support.passes import Hides, with_storage
from tests.support.tables import insert, make_table, rows_of, with_settings

DRIVER, WORKER = "compactor-driver-h-77-aaaa", "compactor-worker-h-77-bbbb"


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms")
    for name in ("a", "b"):
        table = make_table(site, warehouse, name)
        for value in (1, 2):
            insert(site, table, [value])
        request_compaction(site, table=name)
    return site


@pytest.fixture
def batch(site: Site) -> int:
    (batch,) = plan_batches(site)
    return batch.batch_id


def begin(site: Site, batch: int, worker: str = WORKER) -> Entry:
    """A driver that has registered and got as far as the transaction of its first entry."""
    assert own_state(site).batches.register(batch, DRIVER, 60_000)
    first = own_state(site).batches.get(batch).entry_ids[0]
    entry = site.metastore.claims.claim(worker, "1", pool_timeout_ms=0, ids=[first])
    assert entry is not None
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION, agent=worker)
    return site.metastore.claims.record(entry, worker, txn, "w", WriteId(2))


def test_from_planned_to_ended(site: Site, batch: int) -> None:
    assert read_batch(site, batch).status is BatchStatus.WAITS
    control.record_launch(site, batch, "application_17_1")
    assert read_batch(site, batch).status is BatchStatus.UNDER_WAY
    assert len(read_batch(site, batch).open_entries) == 2
    run_batch(site, batch, InProcessRunner())
    ended = read_batch(site, batch)
    assert (ended.status, ended.open_entries, ended.failed_entries) == (BatchStatus.ENDED, (), ())


def test_a_driver_whose_reservation_expires_is_lost(site: Site, batch: int) -> None:
    assert own_state(site).batches.register(batch, DRIVER, 60_000)
    assert read_batch(site, batch).status is BatchStatus.UNDER_WAY
    own_state(site).batches.extend(batch, DRIVER, -1)
    assert read_batch(site, batch).status is BatchStatus.LOST
    assert control.replan_batch(site, batch)
    assert read_batch(site, batch).status is BatchStatus.WAITS


def test_a_released_batch_can_run_again_and_its_driver_cannot_commit(site: Site, batch: int) -> None:
    """PROTOCOL 6: the transaction of a worker given up on is aborted before its request is queued again."""
    entry = begin(site, batch)
    assert entry.txn_id is not None
    control.release_batch(site, batch, "its task was cleared")
    assert site.metastore.transactions.state(entry.txn_id) == "a"
    assert read_batch(site, batch).status is BatchStatus.RELEASED
    assert {e.state for e in read_batch(site, batch).open_entries} == {State.INITIATED, State.WORKING}
    assert control.replan_batch(site, batch)
    done = run_batch(site, batch, InProcessRunner())
    assert len(done.outcomes) == 2
    assert not done.failed
    assert read_batch(site, batch).open_entries == ()
    for name in ("a", "b"):
        assert len(rows_of(site, site.metastore.catalog.table("default", name))) == 2


def test_directories_named_by_a_released_driver_are_hidden_before_its_locks_go(site: Site, batch: int) -> None:
    """PROTOCOL 6: the driver may have died between the two renames of a pair, and no pass has repaired that yet."""
    entry = begin(site, batch)
    assert entry.txn_id is not None
    target = site.target(entry.entity)
    request = target.lock(LockType.EXCLUSIVE)
    assert site.metastore.locks.try_acquire(entry.txn_id, [request], site.user, site.host) is not None
    named = f"delta_0000001_0000002_v{entry.txn_id:07d}"
    site.storage.make_directories(f"{target.location}/{named}", like=target.location)
    disk = Hides(site)
    control.release_batch(with_storage(site, disk), batch, "its driver died")
    assert disk.seen == [(named, [entry.txn_id])]
    assert (site.metastore.transactions.state(entry.txn_id), site.metastore.locks.show()) == ("a", [])


def abort_batch(site: Site, batch: int) -> list[Entry]:
    """Ends a batch and aborts its requests, as a person does who marks its task as failed."""
    aborted, refused = abort_compactions(site, [entry.id for entry in control.end_batch(site, batch)])
    assert refused == []
    return aborted


def test_an_aborted_batch_takes_its_requests_with_it(site: Site, batch: int) -> None:
    begin(site, batch)
    assert {e.state for e in abort_batch(site, batch)} == {State.ABORTED}
    assert read_batch(site, batch).status is BatchStatus.RELEASED
    assert site.metastore.entries.queue() == []
    assert plan_batches(site) == []


@pytest.mark.parametrize("end", [lambda s, b: control.release_batch(s, b, "cleared"), abort_batch])
def test_an_entry_that_another_worker_has_is_left_to_it(site: Site, batch: int, end: object) -> None:
    entry = begin(site, batch, worker="compactor-worker-h-78-cccc")
    assert entry.txn_id is not None
    end(site, batch)  # type: ignore[operator]
    assert site.metastore.transactions.state(entry.txn_id) == "o"
    assert site.metastore.entries.get(entry.id).state is State.WORKING


def test_an_entry_that_the_history_dropped_is_left_out(site: Site, batch: int) -> None:
    ids = own_state(site).batches.get(batch).entry_ids
    site.metastore.claims.abort_request(ids[0])
    site.metastore.housekeeping.purge_history([ids[0]])
    assert set(read_batch(site, batch).entries) == {ids[1]}


def test_the_next_attempt_of_an_application_goes_on_with_its_batch(site: Site, batch: int) -> None:
    """YARN starts a master again that died; what the first one had begun can no longer commit, and is done once."""
    entry = begin(site, batch)
    own_state(site).batches.describe(batch, DRIVER, application_id="application_17_1", tracking_url=None, log_url=None)
    other = run_batch(site, batch, InProcessRunner(), application=Application(id="application_18_1", attempt=2))
    first = run_batch(site, batch, InProcessRunner(), application=Application(id="application_17_1"))
    assert not other.mine
    assert not first.mine
    done = run_batch(site, batch, InProcessRunner(), application=Application(id="application_17_1", attempt=2))
    assert [o.result for o in done.outcomes] == [Result.COMPACTED] * 2
    assert entry.txn_id is not None
    assert site.metastore.transactions.state(entry.txn_id) == "a"
    assert read_batch(site, batch).status is BatchStatus.ENDED


def test_also_if_the_first_driver_gave_it_back_but_not_if_a_person_did(site: Site, batch: int) -> None:
    own_state(site).batches.register(batch, DRIVER, 60_000)
    own_state(site).batches.describe(batch, DRIVER, application_id="application_17_1", tracking_url=None, log_url=None)
    own_state(site).batches.release(batch, DRIVER)
    control.free_for_next_attempt(site, batch, "application_17_1")
    assert read_batch(site, batch).status is BatchStatus.WAITS
    abort_batch(site, batch)
    control.free_for_next_attempt(site, batch, "application_17_1")
    assert read_batch(site, batch).status is BatchStatus.RELEASED


def test_a_batch_that_is_done_stays_done_for_the_next_attempt(site: Site, batch: int) -> None:
    application = Application(id="application_17_1")
    run_batch(site, batch, InProcessRunner(), application=application)
    assert not run_batch(site, batch, InProcessRunner(), application=replace(application, attempt=2)).mine
    control.must_not_have_failed(site, batch)


def test_an_earlier_attempt_s_failure_is_told_again(site: Site, batch: int) -> None:
    entry = begin(site, batch)
    site.metastore.claims.finish(entry, State.FAILED, "no room")
    with pytest.raises(CompactorError, match=rf"compaction {entry.id} of default.a failed: no room"):
        control.must_not_have_failed(site, batch)
