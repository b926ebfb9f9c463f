from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from compactor.acid.names import parse_hidden, staging_name
from compactor.compaction.entry import Entry
from compactor.compaction.states import State
from compactor.errors import LockNotGranted, Refused, StorageError
from compactor.ids import TxnId, WriteId
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import COMPACTION_QUEUE, TXNS
from compactor.metastore.transactions.rows import TxnType
from compactor.rewrite.run.runner import InProcessRunner
from compactor.service import repair
from compactor.service.batches.assembly import claimable, plan_batches
from compactor.service.batches.driver import run_entries
from compactor.service.requests.request import request_compaction
from compactor.service.roles.cleaner import clean
from compactor.service.roles.housekeeper import keep_house
from compactor.service.roles.initiator import initiate
from compactor.service.site import Site, compactor_view
from compactor.service.worker.outcome import Result
from compactor.storage.local import LocalStorage
from tests.support.passes import Hides, Renames, age, compact, with_storage
from tests.support.tables import entity_of, insert, make_table, with_settings
from tests.support.watching import names_in

WORKER = "compactor-worker-gone"


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, [1, 2])
    insert(site, table, [3])
    return table


def claimed(site: Site, worker: str = WORKER) -> Entry:
    (asked,) = request_compaction(site, table="default.t")
    assert asked.entry_id is not None
    entry = site.metastore.claims.claim(worker, "1", pool_timeout_ms=0, ids=[asked.entry_id])
    assert entry is not None
    return entry


def begun(site: Site, table: Table) -> tuple[Entry, TxnId]:
    """A worker that has opened its transaction, staged and named something."""
    entry = claimed(site)
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION, agent=WORKER)
    site.metastore.claims.record(entry, WORKER, txn, "w", WriteId(2))
    (Path(table.location) / staging_name(txn) / "out").mkdir(parents=True)
    (Path(table.location) / f"base_0000002_v{txn:07d}").mkdir()
    return entry, txn


def test_a_living_worker_is_left_alone(site: Site, table: Table) -> None:
    """PROTOCOL 6: what it staged, named or uploads is nobody else's as long as its transaction is open."""
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
    assert repair.repair(watched) == ()
    repair.erase(watched, target, txn)
    repair.sweep(watched, target)
    assert names_in(Path(table.location)) == before
    assert [(is_gone(txn), is_gone(dead)) for is_gone in asked] == [(False, True)]


def test_a_worker_that_has_just_begun_is_left_alone(site: Site, table: Table) -> None:
    claimed(site)
    assert repair.repair(site) == ()


def test_a_worker_that_has_not_recorded_its_transaction_yet_lives_by_it(site: Site, table: Table) -> None:
    """It may have waited long for a lock; its transaction bears its name."""
    entry = claimed(site)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_START=0))
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION, agent=WORKER)
    assert repair.repair(site) == ()
    assert site.metastore.entries.get(entry.id).state is State.WORKING
    site.metastore.transactions.abort(txn, "by hand")
    assert [one.result for one in repair.repair(site)] == [State.INITIATED]


@pytest.mark.parametrize("ended", ["committed", "forgotten"])
def test_only_what_txns_says_is_aborted_is_hidden(site: Site, table: Table, ended: str) -> None:
    """PROTOCOL 5, 6: what is named may be what readers see, and their only copy."""
    _, txn = begun(site, table)
    site.metastore.transactions.commit(txn)
    site.metastore.transactions.open("later", "h")
    if ended == "forgotten":
        with site.metastore.database.write() as conn:
            conn.execute(delete(TXNS).where(txn == TXNS.c.TXN_ID))
    target = site.target(entity_of(table))
    repair.erase(site, target, txn)
    repair.sweep(site, target)
    assert f"base_0000002_v{txn:07d}" in names_in(Path(table.location))


def test_a_lost_workers_request_waits_again_and_nothing_of_it_is_seen(site: Site, table: Table) -> None:
    """PROTOCOL 6: abort its transaction, hide what it named, remove what it staged; only then ``i``."""
    entry, txn = begun(site, table)
    age(site)
    (done,) = repair.repair(site)
    assert (done.entry.id, done.result) == (entry.id, State.INITIATED)
    assert str(txn) in done.because
    assert site.metastore.transactions.state(txn) == "a"
    assert site.metastore.entries.get(entry.id).state is State.INITIATED
    assert not names_in(Path(table.location)) & {staging_name(txn), f"base_0000002_v{txn:07d}"}
    assert repair.repair(site) == ()


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


def test_what_a_lost_worker_named_is_hidden_before_its_locks_go(site: Site, table: Table) -> None:
    """PROTOCOL 5, 6: else a reader without visibility would see half of a pair as soon as the exclusive lock is gone."""
    _, txn = begun(site, table)
    request = site.target(entity_of(table)).lock(LockType.EXCLUSIVE)
    assert site.metastore.locks.try_acquire(txn, [request], site.user, site.host) is not None
    age(site)
    seen: list[tuple[str, str | None, list[TxnId | None]]] = []

    def look(source: str, target: str) -> None:
        locks = [lock.txn for lock in site.metastore.locks.show()]
        seen.append((Path(source).name, site.metastore.transactions.state(txn), locks))

    (done,) = repair.repair(with_storage(site, Renames(look)))
    assert done.result is State.INITIATED
    assert seen == [(f"base_0000002_v{txn:07d}", "o", [txn])]
    assert (site.metastore.transactions.state(txn), site.metastore.locks.show()) == ("a", [])


def test_who_is_taken_back_while_he_lives_loses_his_transaction_first(site: Site, table: Table) -> None:
    """PROTOCOL 6: hidden, aborted, and only then ``i``."""
    entry, txn = begun(site, table)
    recorded = site.metastore.entries.get(entry.id)
    disk = Hides(site)
    assert repair.take_back(with_storage(site, disk), recorded, "by hand").result is State.INITIATED
    assert [name for name, _ in disk.seen] == [f"base_0000002_v{txn:07d}"]
    assert site.metastore.transactions.state(txn) == "a"


def test_a_worker_hides_what_an_aborted_compaction_left(site: Site, table: Table) -> None:
    """PROTOCOL 7.2: at once, also where no entry tells of it any more; else it is a twin of what comes."""
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    left = Path(table.location) / f"base_0000002_v{txn:07d}"
    left.mkdir()
    site.metastore.transactions.abort(txn, "by hand")
    disk = Hides(site)
    outcome = compact(with_storage(site, disk))
    assert outcome.result is Result.COMPACTED
    assert ([name for name, _ in disk.seen], left.exists()) == ([left.name], False)
    (hidden,) = filter(None, map(parse_hidden, names_in(Path(table.location))))
    assert hidden.until == outcome.txn  # the newest one then: whoever is open may have it open too


def test_of_a_transaction_that_is_heard_of_nothing_is_hidden(site: Site, table: Table) -> None:
    """It may have named nothing, or commit at this moment."""
    _, txn = begun(site, table)
    before = names_in(Path(table.location))
    with site.metastore.transactions.timing_out(txn, 60_000) as newest:
        assert newest is None
    assert (site.metastore.transactions.state(txn), names_in(Path(table.location))) == ("o", before)
    site.metastore.transactions.commit(txn)
    with site.metastore.transactions.timing_out(txn, -60_000) as newest:
        assert newest is None
    assert site.metastore.transactions.state(txn) != "a"


def test_a_transaction_stays_where_what_it_named_cannot_be_hidden(site: Site, table: Table) -> None:
    _, txn = begun(site, table)

    def fail() -> None:
        with site.metastore.transactions.timing_out(txn, -60_000) as newest:
            assert newest == txn
            raise StorageError("the disk is gone")

    with pytest.raises(StorageError):
        fail()
    assert site.metastore.transactions.state(txn) == "o"


def test_losses_are_told_without_acting(site: Site, table: Table) -> None:
    entry, txn = begun(site, table)
    assert repair.lost(site) == ()
    site.metastore.transactions.abort(txn, "by hand")
    before = names_in(Path(table.location))
    ((found, because),) = repair.lost(site)
    assert (found.id, because) == (entry.id, f"its transaction {txn} is aborted")
    assert names_in(Path(table.location)) == before


def test_rows_of_hives_own_workers_are_hives(site: Site, table: Table) -> None:
    """PROTOCOL 6."""
    entry = claimed(site)
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_WORKER_ID="hive-host-42", CQ_START=0))
    assert repair.repair(site) == ()
    assert site.metastore.entries.get(entry.id).state is State.WORKING


def test_a_lost_request_for_a_table_that_is_gone_ends(site: Site, table: Table) -> None:
    """PROTOCOL 6: no row vanishes without history."""
    entry, txn = begun(site, table)
    site.metastore.transactions.abort(txn, "by hand")
    with site.metastore.database.write() as conn:
        conn.execute(update(COMPACTION_QUEUE).values(CQ_TABLE="gone"))
    (done,) = repair.repair(site)
    assert done.result is State.REFUSED
    (row,) = site.metastore.entries.history()
    assert (row.id, row.state) == (entry.id, State.REFUSED)
    assert "gone" in (row.error or "")


def test_no_plan_beside_an_unfinished_compaction(site: Site, table: Table) -> None:
    """PROTOCOL 6: a planner hides or refuses, never adds a twin."""
    _, txn = begun(site, table)
    target = site.target(entity_of(table))
    with pytest.raises(LockNotGranted, match=f"being written by transaction {txn}"):
        repair.no_strangers(site, target, compactor_view(site, target))
    site.metastore.transactions.abort(txn, "by hand")
    repair.sweep(site, target)
    repair.no_strangers(site, target, compactor_view(site, target))


def test_a_worker_plans_nothing_beside_an_unfinished_compaction(site: Site, table: Table) -> None:
    """PROTOCOL 6: its transaction is open, or was never opened here."""
    (txn,) = site.metastore.transactions.open("w", "h", type=TxnType.COMPACTION)
    for number, fate in ((txn, Result.WAITING), (9999, Result.REFUSED)):
        named = Path(table.location) / f"base_0000002_v{number:07d}"
        named.mkdir()
        before = names_in(Path(table.location))
        outcome = (
            compact(site)
            if fate is Result.WAITING
            else run_entries(site, claimable(site), InProcessRunner()).outcomes[0]
        )
        assert (outcome.result, named.name in outcome.message) == (fate, True)
        assert names_in(Path(table.location)) == before
        named.rmdir()


def test_a_directory_of_a_transaction_that_was_never_opened_is_refused(site: Site, table: Table) -> None:
    (Path(table.location) / "base_0000002_v0009999").mkdir()
    target = site.target(entity_of(table))
    with pytest.raises(Refused, match="bears transaction 9999, which this metastore has not opened"):
        repair.no_strangers(site, target, compactor_view(site, target))
