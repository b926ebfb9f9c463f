from __future__ import annotations

import pytest

from compactor.compaction.entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.demo.fixtures import register_fixture
from compactor.errors import BadSetting, Refused
from compactor.locking.lock_types import LockType
from compactor.locking.requests import LockRequest
from compactor.metastore.transactions.rows import TxnType
from compactor.service.answers import show
from compactor.service.site import VERSION, Site
from tests.support.expected import step

COMPACTIONS = (
    *("compactionid", "dbname", "tabname", "partname", "type", "state", "workerhost", "workerid", "enqueuetime"),
    *("starttime", "duration", "hadoopjobid", "errormessage", "initiatorhost", "initiatorid", "poolname", "txnid"),
    *("nexttxnid", "committime", "highestwriteid"),
)
ENTITY = Entity(database="default", table="t")


def request(site: Site, entity: Entity = ENTITY, pool: str | None = None) -> int:
    return site.metastore.requests.request(
        Request(entity=entity, type=CompactionType.MAJOR, initiator=f"compactor-{site.host}-manual", pool=pool)
    )


def test_keys_are_hives_columns_in_lower_case() -> None:
    assert show.CompactionRow.columns() == COMPACTIONS
    assert show.TransactionRow.columns()[:6] == ("txnid", "state", "startedtime", "lastheartbeattime", "user", "host")
    assert show.LockShown.columns() == (
        *("lockid", "database", "table", "partition", "lock_state", "blocked_by", "lock_type", "transaction_id"),
        *("last_heartbeat", "acquired_at", "user", "hostname", "agent_info"),
    )


def test_a_queued_compaction(deployment: Site) -> None:
    number = request(deployment, pool="nightly")
    (row,) = show.compactions(deployment)
    told = row.to_json()
    assert (told["compactionid"], told["type"], told["state"], told["poolname"]) == (
        number,
        "MAJOR",
        "initiated",
        "nightly",
    )
    assert isinstance(told["enqueuetime"], int)
    assert told["enqueuetime"] > 1_600_000_000_000
    assert told["starttime"] is None
    assert told["duration"] is None
    assert told["initiatorhost"] == deployment.host


def test_a_working_one_names_its_workers_host(deployment: Site) -> None:
    request(deployment)
    worker = deployment.identity("worker")
    deployment.metastore.claims.claim(worker, VERSION, pool_timeout_ms=0)
    (row,) = show.compactions(deployment)
    assert (row.state, row.workerid, row.workerhost) == ("working", worker, deployment.host[:64])


def test_hives_own_rows_keep_their_hosts(deployment: Site, warehouse) -> None:  # type: ignore[no-untyped-def]
    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s9_major_cleaned"), warehouse)
    rows = show.history(deployment, Entity(database="default", table="f1_basic"))
    assert [row.type for row in rows] == ["MAJOR", "MINOR"]
    assert {row.initiatorhost for row in rows} == {"HOST"}
    assert all(row.duration is not None and row.duration > 0 for row in rows)


def test_what_happened_last_comes_first(deployment: Site) -> None:
    first = request(deployment)
    second = request(deployment, Entity(database="default", table="u"))
    assert [row.compactionid for row in show.compactions(deployment)] == [first, second]
    deployment.metastore.endings.abort_request(second)
    assert [(row.compactionid, row.state) for row in show.compactions(deployment)] == [
        (second, "aborted"),
        (first, "initiated"),
    ]


def test_the_history_of_one_table_is_its_own(deployment: Site) -> None:
    for entity in (ENTITY, Entity(database="default", table="t", partition="p=1"), Entity(database="d", table="t")):
        deployment.metastore.endings.abort_request(request(deployment, entity))
    assert len(show.history(deployment)) == 3
    assert [row.partname for row in show.history(deployment, ENTITY)] == ["p=1", None]
    partition = Entity(database="default", table="t", partition="p=1")
    assert [row.partname for row in show.history(deployment, partition)] == ["p=1"]


def test_transactions_that_are_open_or_aborted(deployment: Site) -> None:
    transactions = deployment.metastore.transactions
    opened, aborted, committed = transactions.open("ann", "h1", count=3)
    transactions.abort(aborted, "by hand")
    transactions.commit(committed)
    (reader,) = transactions.open("bob", "h2", type=TxnType.READ_ONLY, agent="q")
    rows = show.transactions(deployment)
    assert [(row.txnid, row.state, row.user, row.type) for row in rows] == [
        (opened, "OPEN", "ann", "DEFAULT"),
        (aborted, "ABORTED", "ann", "DEFAULT"),
        (reader, "OPEN", "bob", "READ_ONLY"),
    ]
    assert rows[2].agent_info == "q"
    assert all(row.startedtime > 1_600_000_000_000 for row in rows)


def test_locks_acquired_first_then_who_waits_for_whom(deployment: Site) -> None:
    one, two = deployment.metastore.transactions.open("ann", "h", count=2)
    locks = deployment.metastore.locks
    held = locks.acquire(one, [LockRequest(database="d", table="t", type=LockType.EXCLUSIVE)], "ann", "h")
    waiting = locks.acquire(two, [LockRequest(database="d", table="t", type=LockType.SHARED_READ)], "ann", "h")
    rows = show.locks(deployment)
    assert [(row.lockid, row.lock_state, row.lock_type, row.blocked_by) for row in rows] == [
        (f"{held.id}.1", "ACQUIRED", "EXCLUSIVE", None),
        (f"{waiting.id}.1", "WAITING", "SHARED_READ", f"{held.id}.1"),
    ]


def test_settings_with_their_sources(deployment: Site) -> None:
    rows = {row.key: row for row in show.settings(deployment.settings)}
    assert rows["hive.compactor.delta.num.threshold"].value == "10"
    assert rows["hive.compactor.delta.num.threshold"].source == "default"
    assert rows["compactor.mode"].value == "clean"


def test_decisions_of_the_newest_pass(deployment: Site, warehouse) -> None:  # type: ignore[no-untyped-def]
    from compactor.service.roles.initiator import initiate

    register_fixture(deployment.metastore, step("hive-4.1/f1_basic/s10_dml_over_base"), warehouse)
    initiate(deployment)
    (row,) = show.decisions(deployment)
    assert row.table == "default.f1_basic"
    assert row.outcome == "major"
    assert row.numbers["deltas"] == 4


def test_without_a_state_there_are_no_decisions_to_show(deployment: Site) -> None:
    from dataclasses import replace

    with pytest.raises(Refused, match="state_url"):
        show.decisions(replace(deployment, state=None))


def test_locks_in_four_forms(deployment: Site) -> None:
    """SHOW LOCKS of all, of a database, a table and a partition; what is above or below doesn't show."""
    locks, [txn] = deployment.metastore.locks, deployment.metastore.transactions.open("ada", "h")
    kind = LockType.SHARED_READ
    names = (("default", None, None), ("default", "t", None), ("default", "t", "p=1"), ("other", "t", None))
    requests = [LockRequest(database=d, table=t, partition=p, type=kind) for d, t, p in names]
    locks.acquire(txn, requests, "ada", "h")

    def told(*where: str) -> list[tuple[str, str | None, str | None]]:
        return [(row.database, row.table, row.partition) for row in show.locks(deployment, *where)]

    assert told() == list(names)
    assert told("default") == list(names[:3])
    assert told("default", "t") == list(names[1:3])
    assert told("default", "t", "p=1") == [names[2]]
    assert told("nowhere") == []


def test_locks_extended_say_for_how_long_and_who_stands_in_the_way(deployment: Site) -> None:
    locks, (first, second) = deployment.metastore.locks, deployment.metastore.transactions.open("ada", "h", count=2)
    exclusive = [LockRequest(database="default", table="t", type=LockType.EXCLUSIVE)]
    locks.acquire(first, exclusive, "ada", "here")
    locks.acquire(second, exclusive, "bob", "there")
    held, waiting = show.locks_extended(deployment, "default", "t")
    assert show.LockExtended.columns()[:13] == show.LockShown.columns()
    assert held.held_ms is not None
    assert 0 <= held.held_ms < 60_000
    assert (held.waits_for, waiting.held_ms) == (None, None)
    assert waiting.waits_for == f"lock 1 (EXCLUSIVE on default.t, transaction {first}, ada@here)"


def test_compactions_by_what_is_asked_for(deployment: Site) -> None:
    """SHOW COMPACTIONS [id | db | table | partition] [POOL] [TYPE] [STATUS] [LIMIT]."""
    first = request(deployment, pool="nightly")
    second = request(deployment, Entity(database="default", table="u", partition="p=1"))
    third = request(deployment, Entity(database="other", table="t"))
    deployment.metastore.endings.abort_request(second)

    def told(limit: int | None = None, **wanted: object) -> list[int]:
        rows = show.compactions(deployment, show.CompactionFilter(**wanted), limit=limit)  # type: ignore[arg-type]
        return sorted(row.compactionid for row in rows)

    assert told() == [first, second, third]
    assert told(id=third) == [third]
    assert told(database="default") == [first, second]
    assert told(database="default", table="t") == [first]
    assert told(database="default", table="u", partition="p=1") == [second]
    assert told(pool="nightly") == [first]
    assert told(pool="default") == [second, third]
    assert told(type="major", state="INITIATED") == [first, third]
    assert told(type="minor") == []
    assert told(state="aborted") == [second]
    assert told(limit=1) == [second]  # what happened last


def test_compactions_in_an_order(deployment: Site) -> None:
    """ORDER BY of SHOW COMPACTIONS: by the first column, then the next; what is not set comes last either way."""
    first = request(deployment, Entity(database="default", table="b"))
    second = request(deployment, Entity(database="default", table="a"))
    third = request(deployment, Entity(database="a", table="b"))
    deployment.metastore.endings.abort_request(second)

    def told(order: str) -> list[int]:
        return [row.compactionid for row in show.compactions(deployment, order=order)]

    assert told("compactionid desc") == [third, second, first]
    assert told("tabname, dbname ASC") == [second, third, first]
    assert told(" TABNAME desc ,compactionid") == [first, third, second]
    assert told("errormessage, compactionid") == told("errormessage desc, compactionid") == [second, first, third]
    assert show.compactions(deployment, order="compactionid", limit=1)[0].compactionid == first
    for wrong in ("when", "tabname down", "tabname; DROP TABLE x"):
        with pytest.raises(BadSetting, match="expected a column and asc or desc"):
            told(wrong)
