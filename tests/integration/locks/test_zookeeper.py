"""The lock manager without transactions over a real ZooKeeper."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from compactor.base.errors import LockNotGranted, LocksUnavailable, NotFound, NotSupported, Refused
from compactor.base.ids import TxnId
from compactor.cli.program import program
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.locks.lock_manager import wait_for
from compactor.metastore.locks.lock_rows import NO_TXN, Lock, LockState
from compactor.metastore.locks.zookeeper import ZooKeeperLocks, open_zookeeper_locks
from tests.support.patience import until
from tests.support.ports import free_port
from tests.support.zookeeper import ZooKeeper
from tests.support.zookeeper import zookeeper as running

ROOT = Path(__file__).parents[3]
R, W, X, E = LockType
Open = Callable[[], ZooKeeperLocks]
_namespaces = itertools.count(1)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Silences kazoo, which logs each end of a session as a warning."""
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("kazoo").setLevel(logging.NOTSET)


@pytest.fixture
def session(zookeeper: ZooKeeper) -> Iterator[Open]:
    """Sessions over a namespace of the test's own, closed at its end."""
    namespace = f"test_{next(_namespaces)}"
    opened: list[ZooKeeperLocks] = []

    def begin() -> ZooKeeperLocks:
        opened.append(open_zookeeper_locks(zookeeper.hosts, namespace=namespace, session_timeout=10))
        return opened[-1]

    yield begin
    for locks in opened:
        locks.close()


def ask(type: LockType, table: str | None = "t", partition: str | None = None) -> LockRequest:
    return LockRequest(database="d", table=table, partition=partition, type=type)


def acquire(locks: ZooKeeperLocks, *requests: LockRequest, txn: int = 0) -> Lock:
    return locks.acquire(TxnId(txn), requests, "u", "h")


#: The matrix of shared (S), semi-shared and exclusive (X) modes: requested beside existing.
MATRIX = {
    (R, R): True, (R, W): True, (R, E): False,
    (W, R): True, (W, W): False, (W, E): False,
    (E, R): False, (E, W): False, (E, E): False,
}  # fmt: skip


@pytest.mark.parametrize(("requested", "existing"), MATRIX)
def test_matrix(requested: LockType, existing: LockType, session: Open) -> None:
    first, second = session(), session()
    assert acquire(first, ask(existing)).is_acquired
    assert acquire(second, ask(requested)).is_acquired is MATRIX[requested, existing]


def test_nodes_are_hives(session: Open) -> None:
    """Ephemeral, sequential, with Hive's names and data, so that its sessions and ours respect each other."""
    locks = session()
    locks.acquire(NO_TXN, [ask(E, "t", "p=1/q=2")], "ada", "10.0.0.1", agent="ada_2026_q1")
    client, root = locks._client, locks._root
    assert client.get_children(f"{root}/d/t/p=1/q=2") == ["LOCK-EXCLUSIVE-0000000000"]
    data, stat = client.get(f"{root}/d/t/p=1/q=2/LOCK-EXCLUSIVE-0000000000")
    query, at, mode, text, host = data.decode().split(":")
    assert (query, mode, text, host) == ("ada_2026_q1", "IMPLICIT", "", "10.0.0.1")
    assert abs(int(at) - time.time() * 1000) < 60_000
    assert stat.ephemeralOwner == client.client_id[0]
    assert sorted(client.get_children(f"{root}/d/t")) == ["LOCK-SHARED-0000000000", "p=1"]


def test_parents_are_locked_shared(session: Open) -> None:
    locks = session()
    acquire(locks, ask(E, "t", "p=1/q=2"))
    assert [(row.table, row.partition, row.type) for row in locks.show()] == [
        (None, None, R),
        ("t", None, R),
        ("t", "p=1", R),
        ("t", "p=1/q=2", E),
    ]
    other = session()
    assert not acquire(other, ask(E)).is_acquired  # the table can't be dropped meanwhile
    assert not acquire(other, ask(E, None)).is_acquired  # nor the database
    assert acquire(other, ask(E, "t", "p=1/q=3")).is_acquired
    assert acquire(other, ask(R)).is_acquired


def test_all_or_nothing_and_never_queued(session: Open) -> None:
    """A lock that is not granted leaves no node, so a reader behind a refused writer is granted: writers can starve."""
    first, second, third = session(), session(), session()
    acquire(first, ask(R, "b"))
    before = len(first.show())
    refused = acquire(second, ask(E, "a"), ask(E, "b"))
    assert refused.state is LockState.WAITING
    assert [(row.table, row.type) for row in refused.blockers] == [("b", R)]
    assert len(first.show()) == before
    assert acquire(third, ask(R, "b")).is_acquired


def test_what_was_refused_is_granted_later(session: Open) -> None:
    first, second = session(), session()
    held = acquire(first, ask(E))
    waits = acquire(second, ask(R))
    assert not second.check(waits.id).is_acquired
    assert first.release(held.id)
    assert not first.release(held.id)
    assert second.check(waits.id).is_acquired
    with pytest.raises(NotFound, match="released"):
        first.check(held.id)


def test_waiting(session: Open) -> None:
    first, second = session(), session()
    held = acquire(first, ask(E))
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            first.release(held.id)

    lock = wait_for(second, NO_TXN, [ask(R)], "u", "h", times=(100, 200, 400, 800), sleep=nap)
    assert lock.is_acquired
    assert naps == [0.1, 0.2, 0.4]
    with pytest.raises(LockNotGranted, match=r"d\.t -> EXCLUSIVE: not granted within 0\.3 s.*SHARED_READ on d\.t"):
        wait_for(first, NO_TXN, [ask(E)], "u", "h", times=(100, 200), sleep=lambda seconds: None)


def test_empty_objects_are_taken_away(session: Open) -> None:
    """Nothing stays of a table that nobody locks; of one that is locked nothing is lost."""
    locks = session()
    one, two = acquire(locks, ask(E, "t", "p=1")), acquire(locks, ask(R, "u"))
    locks.release(one.id)
    assert "t" not in locks._client.get_children(f"{locks._root}/d")
    assert locks.check(two.id).is_acquired
    locks.release(two.id)
    assert locks._client.get_children(locks._root) == []


def test_locks_of_one_transaction_never_conflict(session: Open) -> None:
    locks = session()
    assert acquire(locks, ask(R), txn=7).is_acquired
    assert acquire(locks, ask(E), txn=7).is_acquired
    assert not acquire(locks, ask(E), txn=8).is_acquired


def test_shown_by_object(session: Open) -> None:
    locks = session()
    acquire(locks, ask(R, "t", "p=1"))
    acquire(locks, ask(E, "u"))
    assert len(locks.show()) == 5
    assert [row.table for row in locks.show("d", "u")] == ["u"]
    assert [row.partition for row in locks.show("d", "t", "p=1")] == ["p=1"]
    assert locks.show("other") == []
    assert {(row.user, row.host) for row in locks.show()} == {("u", "h")}


def test_nothing_asked(session: Open) -> None:
    with pytest.raises(Refused, match="no lock"):
        acquire(session())


_HOLDER = """
import sys, time
from compactor.locking.lock_types import LockType
from compactor.locking.lock_types import LockRequest
from compactor.metastore.locks.zookeeper import open_zookeeper_locks
locks = open_zookeeper_locks(sys.argv[1], namespace=sys.argv[2], session_timeout=6)
lock = locks.acquire(0, [LockRequest(database="d", table="t", type=LockType.EXCLUSIVE)], "u", "h")
print(lock.is_acquired, flush=True)
time.sleep(600)
"""


def test_the_locks_of_a_killed_process_go(session: Open, zookeeper: ZooKeeper) -> None:
    locks = session()
    command = [sys.executable, "-c", _HOLDER, zookeeper.hosts, locks._root]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}) as p:
        assert p.stdout is not None
        assert p.stdout.readline() == "True\n"
        waits = acquire(locks, ask(R))
        assert not waits.is_acquired
        p.send_signal(signal.SIGKILL)
    until("the lock of the killed one goes", lambda: locks.check(waits.id).is_acquired, pause=0.05)


def test_nobody_there() -> None:
    port = free_port()
    with pytest.raises(LocksUnavailable, match=f"127.0.0.1:{port}: no answer"):
        open_zookeeper_locks(f"127.0.0.1:{port}", connect_timeout=0.3)


@pytest.mark.whole
def test_a_server_that_goes_away(tmp_path: Path) -> None:
    """A session that gets no answer ends in one sentence, not in waiting for ever; the next one is a new one."""
    with running(tmp_path) as server:
        locks = open_zookeeper_locks(server.hosts, session_timeout=2)
        lock = acquire(locks, ask(E))
        server.kill()
        locks._answer_timeout = 0.5

        def refused() -> str:
            with pytest.raises(LocksUnavailable) as said:
                locks.check(lock.id)
            return str(said.value)

        first = refused()
        assert first.startswith(f"ZooKeeper {server.hosts}: ")
        assert "check that it runs" in first
        until("it is given up", lambda: "open another" in refused())  # first it may be that the connection was lost
        with pytest.raises(LocksUnavailable, match="open another"):
            locks.show()
        locks.close()
        server.start()
        with closing(open_zookeeper_locks(server.hosts, session_timeout=10)) as again:
            waits = acquire(again, ask(R))
            until("the dead session's time is over", lambda: again.check(waits.id).is_acquired, pause=0.05)


def test_without_kazoo_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kazoo.client", None)
    with pytest.raises(NotSupported, match=r"hive-compactor\[zookeeper\]"):
        open_zookeeper_locks("127.0.0.1:1")


def test_show_locks(session: Open, zookeeper: ZooKeeper) -> None:
    locks = session()
    acquire(locks, ask(E, "t", "p=1"))
    arguments = [
        "show",
        "locks",
        "d.t",
        "--zookeeper",
        zookeeper.hosts,
        "--namespace",
        locks._root.strip("/"),
        "--json",
    ]
    done = CliRunner().invoke(program, arguments)
    assert done.exit_code == 0, done.output
    shown = [(row["table"], row["partition"], row["lock_type"]) for row in json.loads(done.stdout)]
    assert shown == [("t", None, "SHARED_READ"), ("t", "p=1", "EXCLUSIVE")]
    data = "hive_1:1700000000000:IMPLICIT:select a from t where b = 1 :laptop"
    locks._client.create(f"{locks._root}/d/t/LOCK-SHARED-", data.encode(), sequence=True)
    done = CliRunner().invoke(program, [*arguments, "--extended"])
    assert done.exit_code == 0, done.output
    (foreign,) = [row for row in json.loads(done.stdout) if row["agent_info"] == "hive_1"]
    assert (foreign["statement"], foreign["hostname"]) == ("select a from t where b = 1", "laptop")
    assert [row["statement"] for row in json.loads(done.stdout)].count(None) == 2
