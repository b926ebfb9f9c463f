from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from compactor.base.errors import Disagreement, FileGone, LockNotGranted, Refused, SnapshotExpired, TransactionAborted
from compactor.compaction.queue_entry import Entity
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.schema.tables import COMPLETED_TXN_COMPONENTS, HIVE_LOCKS, TXN_COMPONENTS
from compactor.settings.precedence import Layer, Settings
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.tables.transactions.transaction import Transaction, WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from tests.support.patience import until

T = Entity(database="default", table="t")
U = Entity(database="default", table="u")


@pytest.fixture
def site(deployment: Site, warehouse: Path) -> Site:
    catalog = deployment.metastore.catalog
    embedded = deployment.metastore.embedded_catalog
    if "default" not in catalog.databases():
        embedded.create_database("default", str(warehouse))
    for name in ("t", "u"):
        location = warehouse / name
        location.mkdir()
        embedded.create_table(
            NewTable(
                "default", name, str(location), [Column(name="a", type="int")], parameters={"transactional": "true"}
            )
        )
    return deployment


def select_rows(site: Site, table) -> list[tuple[object, ...]]:  # type: ignore[no-untyped-def]
    with site.metastore.database.read() as conn:
        return [tuple(row) for row in conn.execute(select(table))]


def test_a_snapshot_ends_at_its_own_transaction(site: Site) -> None:
    """PROTOCOL 13.2: also where another one that was opened later has committed before the first statement."""
    with transaction(site, role="program") as early:
        with transaction(site, role="program") as late:
            written = late.begin_statement(T, WriteOperation.INSERT)
        seen = early.write_ids(site.metastore.catalog.table("default", "t"))
        assert not seen.is_valid(written.write_id)
    with transaction(site, role="program") as after:
        assert after.write_ids(site.metastore.catalog.table("default", "t")).is_valid(written.write_id)


def test_in_mode_observe_nobody_opens_one(site: Site, metastore_url: str) -> None:
    """It would be a row in the metastore, also of who only reads."""
    flags = {"compactor.mode": "observe", "url": metastore_url}
    with (
        open_site(configure(flags=flags, environment={})) as observing,
        pytest.raises(Refused, match=r"compactor\.mode is observe \(flag.*set request or more"),
        transaction(observing),
    ):
        pass


def test_the_component_is_there_before_any_file_can_be(site: Site) -> None:
    """PROTOCOL 8: our statements write a component before a directory is made."""
    with transaction(site, "ann") as txn:
        statement = txn.begin_statement(T, WriteOperation.INSERT)
        assert select_rows(site, TXN_COMPONENTS) == [(txn.id, "default", "t", None, "i", statement.write_id)]
        assert list(Path(statement.location).iterdir()) == []
    assert select_rows(site, TXN_COMPONENTS) == []


def test_statements_count_within_a_table_and_share_its_write_id(site: Site) -> None:
    with transaction(site) as txn:
        found = [txn.begin_statement(entity, WriteOperation.INSERT) for entity in (T, T, U, T)]
    assert [s.statement_id for s in found] == [0, 1, 0, 2]
    assert [s.write_id for s in found] == [1, 1, 1, 1]
    with transaction(site) as txn:
        assert txn.begin_statement(T, WriteOperation.DELETE).write_id == 2


def test_the_end_of_the_block_commits(site: Site) -> None:
    with transaction(site) as txn:
        txn.begin_statement(T, WriteOperation.DELETE)
        assert site.metastore.transactions.state(txn.id) == "o"
    assert site.metastore.transactions.state(txn.id) == "c"
    assert [row[:4] for row in select_rows(site, COMPLETED_TXN_COMPONENTS)] == [(txn.id, "default", "t", None)]
    assert select_rows(site, HIVE_LOCKS) == []


def test_an_error_aborts_and_the_component_stays_known(site: Site) -> None:
    """PROTOCOL 8: nothing of an aborted transaction is forgotten while its files may exist."""
    ids = []

    def write_and_fail() -> None:
        with transaction(site) as txn:
            ids.append(txn.id)
            txn.begin_statement(T, WriteOperation.INSERT)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert site.metastore.transactions.state(ids[0]) == "a"
    assert len(select_rows(site, TXN_COMPONENTS)) == 1
    assert select_rows(site, HIVE_LOCKS) == []


def test_who_was_aborted_hears_that_and_not_which_file_is_gone(site: Site) -> None:
    """An aborted transaction's staging is swept, and a program that was paused finds it gone."""

    def lose(*, aborts: bool) -> None:
        with transaction(site) as txn:
            if aborts:
                site.metastore.transactions.abort(txn.id, "by an operator", agent=txn.agent)
            raise FileGone("bucket_00000: it is gone")

    with pytest.raises(TransactionAborted, match="is aborted") as raised:
        lose(aborts=True)
    assert isinstance(raised.value.__cause__, FileGone)
    with pytest.raises(FileGone):
        lose(aborts=False)


def test_a_transaction_sees_its_own_writes_and_no_other_open_one(site: Site) -> None:
    with transaction(site) as txn:
        mine = txn.begin_statement(T, WriteOperation.INSERT)
        assert txn.write_ids(mine.table).is_valid(mine.write_id)
        with transaction(site) as other:
            theirs = other.begin_statement(T, WriteOperation.INSERT)
            assert not other.write_ids(theirs.table).is_valid(mine.write_id)


def test_what_was_opened_later_is_not_seen_even_where_it_committed_before_the_first_statement(site: Site) -> None:
    """Hive's lists end at the reader's own transaction; docs/tables.md says so."""
    with transaction(site) as first:
        with transaction(site) as second:
            theirs = second.begin_statement(T, WriteOperation.INSERT)
        assert not first.write_ids(theirs.table).is_valid(theirs.write_id)
    with transaction(site) as later:
        assert later.write_ids(theirs.table).is_valid(theirs.write_id)


def configured(site: Site, **values: str) -> Site:
    named = {key.replace("_", "."): value for key, value in values.items()}
    return replace(site, settings=Settings.of([Layer(name="flag", values=named)]))


@pytest.mark.parametrize(
    ("operation", "settings", "wanted"),
    [
        (WriteOperation.INSERT, {}, ["SHARED_WRITE"]),
        (WriteOperation.DELETE, {}, ["SHARED_WRITE"]),
        (WriteOperation.UPDATE, {}, ["EXCL_WRITE"]),
        (WriteOperation.INSERT, {"hive_txn_xlock_write": "true"}, ["SHARED_READ"]),
        (WriteOperation.DELETE, {"hive_txn_xlock_write": "true"}, ["EXCL_WRITE"]),
        (WriteOperation.UPDATE, {"hive_txn_xlock_write": "true"}, ["EXCLUSIVE"]),
        (WriteOperation.UPDATE, {"hive_txn_xlock_write": "true", "hive_txn_xlock_iow": "false"}, ["EXCL_WRITE"]),
        (WriteOperation.DELETE, {"hive_support_concurrency": "false"}, []),
    ],
)
def test_locks_follow_the_configuration(
    site: Site, operation: WriteOperation, settings: dict[str, str], wanted: list[str]
) -> None:
    """Hive's ``hive.txn.xlock.write``, ``hive.txn.xlock.iow`` and ``hive.support.concurrency``."""
    with transaction(configured(site, **settings)) as txn:
        txn.begin_statement(T, operation)
        assert [lock.type.name for lock in site.metastore.locks.show()] == wanted


def test_the_first_committer_wins(site: Site) -> None:
    site = configured(site, hive_txn_xlock_write="false")
    ids = []

    def late_and_early() -> None:
        with transaction(site) as late:
            ids.append(late.id)
            late.begin_statement(T, WriteOperation.DELETE)
            with transaction(site) as early:
                ids.append(early.id)
                early.begin_statement(T, WriteOperation.DELETE)

    with pytest.raises(TransactionAborted, match="committed first"):
        late_and_early()
    assert [site.metastore.transactions.state(txn) for txn in ids] == ["a", "c"]


def test_a_blocking_lock_is_named_after_the_wait(site: Site) -> None:
    quick = replace(site, settings=Settings.of([Layer(name="flag", values={"compactor.lock.wait": "20ms"})]))
    (holder,) = site.metastore.transactions.open("bob", "h")
    site.metastore.locks.acquire(
        holder, [LockRequest(database="default", table="t", type=LockType.EXCLUSIVE)], "bob", "h"
    )
    with pytest.raises(LockNotGranted, match=f"transaction {holder}, bob@h"), transaction(quick) as txn:
        txn.begin_statement(T, WriteOperation.INSERT)
    assert len(select_rows(site, HIVE_LOCKS)) == 1
    assert select_rows(site, TXN_COMPONENTS) == []


def test_a_lock_that_becomes_free_is_taken(site: Site) -> None:
    (holder,) = site.metastore.transactions.open("bob", "h")
    request = LockRequest(database="default", table="t", type=LockType.EXCLUSIVE)
    site.metastore.locks.acquire(holder, [request], "bob", "h")
    timer = threading.Timer(0.2, lambda: site.metastore.transactions.abort(holder, "done"))
    timer.start()
    with transaction(site) as txn:
        assert txn.begin_statement(T, WriteOperation.INSERT).write_id == 1
    timer.join()


def test_who_is_aborted_while_it_waits_for_a_lock_hears_that(site: Site) -> None:
    (holder,) = site.metastore.transactions.open("bob", "h")
    request = LockRequest(database="default", table="t", type=LockType.EXCLUSIVE)
    site.metastore.locks.acquire(holder, [request], "bob", "h")

    def is_waiting(txn: Transaction) -> bool:
        with site.metastore.database.read() as conn:
            waits = select(HIVE_LOCKS).where(txn.id == HIVE_LOCKS.c.HL_TXNID, HIVE_LOCKS.c.HL_LOCK_STATE == "w")
            return conn.execute(waits).first() is not None

    def abort(txn: Transaction) -> None:
        until("it waits", lambda: is_waiting(txn))
        site.metastore.transactions.abort(txn.id, "by an operator")

    def wait() -> None:
        with transaction(site) as txn:
            operator = threading.Thread(target=abort, args=(txn,))
            operator.start()
            try:
                txn.begin_statement(T, WriteOperation.INSERT)
            finally:
                operator.join()

    with pytest.raises(TransactionAborted, match=r"was ended while it waited.*begin again"):
        wait()


def test_a_statement_of_a_lost_transaction_says_so(site: Site) -> None:
    quick = replace(site, settings=Settings.of([Layer(name="flag", values={"hive.txn.timeout": "40ms"})]))

    def go_on() -> None:
        with transaction(quick) as txn:
            site.metastore.transactions.abort(txn.id, "by an operator")
            until("the heartbeat has seen it", lambda: is_lost(txn))
            txn.begin_statement(T, WriteOperation.INSERT)

    def is_lost(txn: Transaction) -> bool:
        try:
            txn.check()
        except SnapshotExpired:
            return True
        return False

    with pytest.raises(TransactionAborted, match=r"is lost: it is aborted; begin again"):
        go_on()
    assert select_rows(site, TXN_COMPONENTS) == []


def test_a_table_that_is_not_transactional_is_refused(site: Site, warehouse: Path) -> None:
    site.metastore.embedded_catalog.create_table(NewTable("default", "plain", str(warehouse / "plain"), []))
    with pytest.raises(Refused, match="not transactional"), transaction(site) as txn:
        txn.begin_statement(Entity(database="default", table="plain"), WriteOperation.INSERT)
    assert select_rows(site, TXN_COMPONENTS) == []


@pytest.mark.parametrize("name", ["delta_0000001_0000001_0000", "base_0000001", "base_0000002_v0000009"])
def test_a_write_id_whose_directory_exists_is_never_written_to(site: Site, name: str) -> None:
    """PROTOCOL 11.12: a restored metastore allocates write IDs again that are on disk; the writer replaced those files."""
    location = Path(site.target(T).location)
    (location / name).mkdir()
    (location / name / "bucket_00000").write_bytes(b"theirs")
    with pytest.raises(Disagreement, match=rf"{name}: write ID [12] was never allocated"), transaction(site) as txn:
        txn.begin_statement(T, WriteOperation.INSERT)
    assert (location / name / "bucket_00000").read_bytes() == b"theirs"
    assert not select_rows(site, TXN_COMPONENTS)
