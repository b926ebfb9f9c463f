from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from compactor.acid.names import parse_hidden, staging_name
from compactor.answers.alarms import raised_alarms
from compactor.answers.readings import take_readings
from compactor.base.errors import Refused, StorageError
from compactor.base.ids import TxnId, WriteId
from compactor.batches.assembly import plan_batches
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.housekeeper.housekeeper import keep_house
from compactor.initiator.fresh_look import look_at
from compactor.initiator.initiator import initiate
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXNS
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.abort import abort_compaction
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site import leftovers, lost_workers
from compactor.site.site import Site
from compactor.storage.local import LocalStorage
from compactor.worker.ending import Result
from tests.support.kept_tables import KeptTables
from tests.support.lost_workers import WORKER, begun, claimed
from tests.support.passes import Hides, Renames, age, compact, with_storage
from tests.support.tables import entity_of, insert, make_table, with_settings
from tests.support.watching import names_in


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path, kept_tables: KeptTables) -> Table:
    return kept_tables.get(site, warehouse, make_deltas)


def make_deltas(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, [1, 2])
    insert(site, table, [3])
    return table


def test_a_living_worker_is_left_alone(site: Site, table: Table) -> None:
    """PROTOCOL 6: its staged, named and uploading files are its own as long as its transaction is open."""
    _, txn = begun(site, table)
    (dead,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    site.metastore.transactions.abort(dead, "by hand")
    asked: list[Callable[[TxnId], bool]] = []

    class Uploads(LocalStorage):
        def deferring(self, path: str) -> Any:
            return self

        def abandon(self, location: str, is_gone: Callable[[TxnId], bool]) -> None:
            asked.append(is_gone)

    watched, target = with_storage(site, Uploads()), site.target(entity_of(table))
    before = names_in(Path(table.location))
    assert lost_workers.repair(watched) == ()
    leftovers.clear_aborted(watched, target, txn)
    leftovers.clear_leftovers(watched, target)
    assert names_in(Path(table.location)) == before
    assert [(is_gone(txn), is_gone(dead)) for is_gone in asked] == [(False, True)]


def test_a_worker_that_has_just_begun_is_left_alone(site: Site, table: Table) -> None:
    claimed(site)
    assert lost_workers.repair(site) == ()


def test_an_unrecorded_transaction_keeps_its_worker_alive(site: Site, table: Table) -> None:
    """It may have waited long for a lock; its transaction names it as its agent."""
    entry = claimed(site)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_START=0))
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION, agent=WORKER)
    assert lost_workers.repair(site) == ()
    assert site.metastore.entries.get(entry.id).state is State.WORKING
    site.metastore.transactions.abort(txn, "by hand")
    assert [one.result for one in lost_workers.repair(site)] == [State.INITIATED]


def test_a_lost_workers_request_is_queued_again_and_nothing_of_it_is_visible(site: Site, table: Table) -> None:
    """PROTOCOL 6: its transaction is aborted, its directories hidden, its staging removed; only then ``i``."""
    entry, txn = begun(site, table)
    age(site)
    (done,) = lost_workers.repair(site)
    assert (done.entry.id, done.result) == (entry.id, State.INITIATED)
    assert str(txn) in done.because
    assert site.metastore.transactions.state(txn) == "a"
    assert site.metastore.entries.get(entry.id).state is State.INITIATED
    assert not names_in(Path(table.location)) & {staging_name(txn), f"base_0000002_v{txn:07d}"}
    assert lost_workers.repair(site) == ()


def held_by_hive(site: Site, *, hours: int, txn: str | None = "a") -> Entry:
    """A request that a worker of Hive's own has held for some hours, with a transaction in the state ``txn``, if any."""
    entry = claimed(site)
    if txn is not None:
        (opened,) = site.metastore.transactions.open("hive", "host7", type=TxnType.COMPACTION)
        site.metastore.claims.record(entry, WORKER, opened, "w", WriteId(2))
        if txn == "a":
            site.metastore.transactions.abort(opened, "its host is gone")
    started = site.metastore.now_ms() - hours * 3_600_000
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_START=started, CQ_WORKER_ID="host7-worker-3"))
    return site.metastore.entries.get(entry.id)


@pytest.mark.parametrize("txn", ["a", None])
def test_a_request_that_a_lost_worker_of_hive_holds_is_given_back_after_its_timeout(
    site: Site, table: Table, txn: str | None
) -> None:
    """Hive's ``revokeTimedoutWorkers``: nobody else would, where Hive's own initiator is off."""
    young = held_by_hive(site, hours=23, txn=txn)
    assert lost_workers.repair(site) == ()
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_START=site.metastore.now_ms() - 25 * 3_600_000))
    (alarm,) = (one for one in raised_alarms(take_readings(site), site.settings) if one.name == "overdue_workers")
    assert alarm.value == 1
    assert [entry.id for entry, _ in lost_workers.lost_requests(site)] == [young.id]
    (done,) = lost_workers.repair(site)
    assert (done.entry.id, done.result) == (young.id, State.INITIATED)
    assert "host7-worker-3 began" in done.because
    compacted = run_entries(site, [young.id], InProcessRunner())
    assert [outcome.result for outcome in compacted.outcomes] == [Result.COMPACTED]


def test_a_worker_of_hive_whose_transaction_is_open_keeps_its_request(site: Site, table: Table) -> None:
    entry = held_by_hive(site, hours=1000, txn="o")
    assert lost_workers.repair(site) == ()
    assert site.metastore.entries.get(entry.id).state is State.WORKING
    with site.metastore.database.write() as conn:  # now it times out, and the request comes back in the same pass
        conn.execute(update(TXNS).where(TXNS.c.TXN_STATE == "o").values(TXN_LAST_HEARTBEAT=0))
    assert [done.result for done in lost_workers.repair(site)] == [State.INITIATED]


@pytest.mark.parametrize("given", [{"compactor_mode": "request"}, {"hive_compactor_worker_timeout": "0s"}])
def test_a_request_of_hives_worker_stays_where_that_is_not_ours_to_say(
    site: Site, table: Table, given: dict[str, str]
) -> None:
    entry = held_by_hive(site, hours=1000)
    assert lost_workers.repair(with_settings(site, **given)) == ()
    assert site.metastore.entries.get(entry.id).state is State.WORKING


def test_a_person_ends_the_request_of_a_lost_worker_of_hive(site: Site, table: Table) -> None:
    entry = held_by_hive(site, hours=1)
    with pytest.raises(Refused, match="a worker of Hive's own"):
        abort_compaction(site, entry.id)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_START=site.metastore.now_ms() - 25 * 3_600_000))
    assert abort_compaction(site, entry.id).state is State.ABORTED
    assert site.metastore.entries.queue() == []


def killed(site: Site, table: Table) -> tuple[lost_workers.Repaired, ...]:
    """Lets the next worker be lost, and returns how that is repaired."""
    (entry,) = site.metastore.entries.queue()
    claims = site.metastore.claims
    assert claims.claim(WORKER, "1", pool_timeout_ms=0, ids=[entry.id]) is not None
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION, agent=WORKER)
    claims.record(site.metastore.entries.get(entry.id), WORKER, txn, "w", WriteId(2))
    (Path(table.location) / f"base_0000002_v{txn:07d}").mkdir()
    age(site)
    return lost_workers.repair(site)


def test_a_request_that_loses_worker_after_worker_fails(site: Site, table: Table) -> None:
    """PROTOCOL 6: it may be what kills them. Nothing that they named stays, and the threshold of failures counts it."""
    request_compaction(site, table="default.t")
    for number in (1, 2):
        (done,) = killed(site, table)
        assert done.result is State.INITIATED
        (entry,) = site.metastore.entries.queue()
        assert (entry.error or "").startswith(f"lost worker {number}: its transaction ")
    (last,) = killed(site, table)
    assert last.result is State.FAILED
    assert site.metastore.entries.queue() == []
    (ended,) = site.metastore.entries.history(last.entry.entity)
    assert ended.state is State.FAILED
    assert "lost worker 3: its transaction " in (ended.error or "")
    assert "compactor.lost.workers" in (ended.error or "")
    assert not {name for name in names_in(Path(table.location)) if name.startswith("base_")}
    once = with_settings(site, hive_compactor_initiator_failed_compacts_threshold="1")
    assert "the last 1 compactions failed" in look_at(once, entity_of(table)).considered.because
    (alarm,) = (one for one in raised_alarms(take_readings(site), site.settings) if one.name == "killed_workers")
    assert alarm.value == 1
    compact(site)
    assert take_readings(site).lost_out == 0


def test_a_request_that_succeeds_forgets_the_workers_that_it_lost(site: Site, table: Table) -> None:
    request_compaction(site, table="default.t")
    killed(site, table)
    run_entries(site, [one.id for one in site.metastore.entries.queue()], InProcessRunner())
    (entry,) = site.metastore.entries.queue()
    assert (entry.state, entry.error) == (State.READY_FOR_CLEANING, None)


def test_the_number_of_workers_that_may_be_lost_is_a_sites(site: Site, table: Table) -> None:
    request_compaction(site, table="default.t")
    (done,) = killed(with_settings(site, compactor_lost_workers="1"), table)
    assert done.result is State.FAILED


ROLES: list[Callable[[Site], object]] = [
    initiate,
    plan_batches,
    lambda site: run_entries(site, [], InProcessRunner()),
    clean,
    keep_house,
]


@pytest.mark.parametrize("role", ROLES, ids=["initiator", "planner", "worker", "cleaner", "housekeeper"])
def test_every_pass_of_every_role_repairs_first(site: Site, table: Table, role: Callable[[Site], object]) -> None:
    """PROTOCOL 6."""
    entry, txn = begun(site, table)
    age(site)
    role(site)
    assert site.metastore.transactions.state(txn) == "a"
    assert site.metastore.entries.get(entry.id).state is State.INITIATED
    assert not names_in(Path(table.location)) & {staging_name(txn), f"base_0000002_v{txn:07d}"}


def test_directories_named_by_a_lost_worker_are_hidden_before_its_locks_go(site: Site, table: Table) -> None:
    """PROTOCOL 5, 6: otherwise a reader without visibility sees half of a pair once the exclusive lock is gone."""
    _, txn = begun(site, table)
    request = site.target(entity_of(table)).lock(LockType.EXCLUSIVE)
    assert site.metastore.locks.try_acquire(txn, [request], site.user, site.host) is not None
    age(site)
    seen: list[tuple[str, str | None, list[TxnId | None]]] = []

    def look(source: str, target: str) -> None:
        locks = [lock.txn for lock in site.metastore.locks.show()]
        seen.append((Path(source).name, site.metastore.transactions.state(txn), locks))

    (done,) = lost_workers.repair(with_storage(site, Renames(look)))
    assert done.result is State.INITIATED
    assert seen == [(f"base_0000002_v{txn:07d}", "o", [txn])]
    assert (site.metastore.transactions.state(txn), site.metastore.locks.show()) == ("a", [])


def test_a_living_worker_that_is_taken_back_loses_its_transaction_first(site: Site, table: Table) -> None:
    """PROTOCOL 6: hidden, aborted, and only then ``i``."""
    entry, txn = begun(site, table)
    recorded = site.metastore.entries.get(entry.id)
    disk = Hides(site)
    assert lost_workers.take_back(with_storage(site, disk), recorded, "by hand").result is State.INITIATED
    assert [name for name, _ in disk.seen] == [f"base_0000002_v{txn:07d}"]
    assert site.metastore.transactions.state(txn) == "a"


def test_a_worker_hides_directories_of_an_aborted_compaction(site: Site, table: Table) -> None:
    """PROTOCOL 7.2: at once, even without an entry; otherwise there would be two directories of one range."""
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    left = Path(table.location) / f"base_0000002_v{txn:07d}"
    left.mkdir()
    site.metastore.transactions.abort(txn, "by hand")
    disk = Hides(site)
    outcome = compact(with_storage(site, disk))
    assert outcome.result is Result.COMPACTED
    assert ([name for name, _ in disk.seen], left.exists()) == ([left.name], False)
    (hidden,) = filter(None, map(parse_hidden, names_in(Path(table.location))))
    assert hidden.until == outcome.txn  # the newest one at the time: any open transaction may have it open


def test_nothing_is_hidden_of_a_transaction_that_heartbeats(site: Site, table: Table) -> None:
    """It may have named nothing, or be committing."""
    _, txn = begun(site, table)
    before = names_in(Path(table.location))
    with site.metastore.transactions.timing_out(txn, 60_000) as newest:
        assert newest is None
    assert (site.metastore.transactions.state(txn), names_in(Path(table.location))) == ("o", before)
    site.metastore.transactions.commit(txn)
    with site.metastore.transactions.timing_out(txn, -60_000) as newest:
        assert newest is None
    assert site.metastore.transactions.state(txn) != "a"


def test_a_transaction_stays_while_its_named_directories_cannot_be_hidden(site: Site, table: Table) -> None:
    _, txn = begun(site, table)

    def fail() -> None:
        with site.metastore.transactions.timing_out(txn, -60_000) as newest:
            assert newest == txn
            raise StorageError("the disk is gone")

    with pytest.raises(StorageError):
        fail()
    assert site.metastore.transactions.state(txn) == "o"


def test_lost_workers_are_reported_without_acting(site: Site, table: Table) -> None:
    entry, txn = begun(site, table)
    assert lost_workers.lost_requests(site) == ()
    site.metastore.transactions.abort(txn, "by hand")
    before = names_in(Path(table.location))
    ((found, because),) = lost_workers.lost_requests(site)
    assert (found.id, because) == (entry.id, f"its transaction {txn} is aborted")
    assert names_in(Path(table.location)) == before


def test_rows_of_hives_own_workers_are_left_to_hive(site: Site, table: Table) -> None:
    """PROTOCOL 6."""
    entry = claimed(site)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_WORKER_ID="hive-host-42", CQ_START=0))
    assert lost_workers.repair(site) == ()
    assert site.metastore.entries.get(entry.id).state is State.WORKING


def test_a_lost_request_for_a_dropped_table_ends(site: Site, table: Table) -> None:
    """PROTOCOL 6: no row vanishes without history."""
    entry, txn = begun(site, table)
    site.metastore.transactions.abort(txn, "by hand")
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_TABLE="gone"))
    (done,) = lost_workers.repair(site)
    assert done.result is State.REFUSED
    (row,) = site.metastore.entries.history()
    assert (row.id, row.state) == (entry.id, State.REFUSED)
    assert "gone" in (row.error or "")
