from __future__ import annotations

from compactor.answers.show_locks import LockExtended, LockShown, show_locks, show_locks_extended
from compactor.cli.output import cell
from compactor.locking.lock_types import LockRequest, LockType
from compactor.site.named_tables import Where
from compactor.site.site import Site


def test_keys_are_hives_columns_in_lower_case() -> None:
    assert LockShown.columns() == (
        *("lockid", "database", "table", "partition", "lock_state", "blocked_by", "lock_type", "transaction_id"),
        *("last_heartbeat", "acquired_at", "user", "hostname", "agent_info"),
    )


def test_acquired_locks_come_before_waiting_ones(deployment: Site) -> None:
    one, two = deployment.metastore.transactions.open("ann", "h", count=2)
    locks = deployment.metastore.locks
    held = locks.acquire(one, [LockRequest(database="d", table="t", type=LockType.EXCLUSIVE)], "ann", "h")
    waiting = locks.acquire(two, [LockRequest(database="d", table="t", type=LockType.SHARED_READ)], "ann", "h")
    rows = show_locks(deployment)
    assert [(row.lockid, row.lock_state, row.lock_type, row.blocked_by) for row in rows] == [
        (f"{held.id}.1", "ACQUIRED", "EXCLUSIVE", None),
        (f"{waiting.id}.1", "WAITING", "SHARED_READ", f"{held.id}.1"),
    ]


def test_locks_in_four_forms(deployment: Site) -> None:
    """SHOW LOCKS of all, of a database, a table and a partition; locks above or below that level are not shown."""
    locks, [txn] = deployment.metastore.locks, deployment.metastore.transactions.open("ada", "h")
    kind = LockType.SHARED_READ
    names = (("default", None, None), ("default", "t", None), ("default", "t", "p=1"), ("other", "t", None))
    requests = [LockRequest(database=d, table=t, partition=p, type=kind) for d, t, p in names]
    locks.acquire(txn, requests, "ada", "h")

    def shown(**where: str) -> list[tuple[str, str | None, str | None]]:
        return [(row.database, row.table, row.partition) for row in show_locks(deployment, Where(**where))]

    assert shown() == list(names)
    assert shown(database="default") == list(names[:3])
    assert shown(database="default", table="t") == list(names[1:3])
    assert shown(database="default", table="t", partition="p=1") == [names[2]]
    assert shown(database="nowhere") == []


def test_extended_locks_show_how_long_and_what_they_wait_for(deployment: Site) -> None:
    locks, (first, second) = deployment.metastore.locks, deployment.metastore.transactions.open("ada", "h", count=2)
    exclusive = [LockRequest(database="default", table="t", type=LockType.EXCLUSIVE)]
    locks.acquire(first, exclusive, "ada", "here")
    locks.acquire(second, exclusive, "bob", "there")
    held, waiting = show_locks_extended(deployment, Where(database="default", table="t"))
    assert LockExtended.columns()[:13] == LockShown.columns()
    assert held.last_heartbeat is None  # its transaction sends them, and 0 is not a time
    assert cell("last_heartbeat", held.last_heartbeat) == cell("last_heartbeat", 0) == "-"
    assert held.held_ms is not None
    assert 0 <= held.held_ms < 60_000
    assert (held.waits_for, waiting.held_ms) == (None, None)
    assert waiting.waits_for == f"lock 1 (EXCLUSIVE on default.t, transaction {first}, ada@here)"
