"""SHOW COMPACTIONS and its kin, ABORT and COMPACT: what the command line's verbs answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from compactor.answers import show_compactions, show_locks, show_rows
from compactor.base.errors import CompactorError, NotFound, Refused
from compactor.compaction.states import State
from compactor.requests.request import WaitTimedOut
from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from tests.support.tables import with_settings

Sql = Callable[[str], list[Mapping[str, object]]]


@pytest.fixture
def sql(deployment: Site, warehouse: Path) -> Sql:
    """Runs a text, and returns the rows of its last statement; ``p`` has the partitions ``n=1`` and ``n=2``."""
    deployment.metastore.embedded_catalog.create_database("default", str(warehouse))

    def go(text: str) -> list[Mapping[str, object]]:
        return [list(answer.rows) for answer in run(deployment, check_text(text))][-1]

    go("create table t (a int); create table p (a int) partitioned by (n int); insert into p values (1, 1), (2, 2)")
    return go


def test_a_compaction_is_requested_with_every_option(sql: Sql, deployment: Site) -> None:
    (asked,) = sql(
        "alter table p partition (n=2) compact 'REBALANCE' clustered into 3 buckets order by a desc pool 'night' "
        "with overwrite tblproperties ('tblprops.orc.compress.size'='65536')"
    )
    assert (asked["table"], asked["state"]) == ("default.p/n=2", "enqueued")
    entry = deployment.metastore.entries.get(int(str(asked["compaction"])))
    assert (entry.entity.partition, entry.pool, entry.buckets) == ("n=2", "night", 3)
    assert (entry.order_by, dict(entry.properties)) == ("order by a desc", {"tblprops.orc.compress.size": "65536"})


def test_without_a_partition_each_is_requested(sql: Sql) -> None:
    assert [row["table"] for row in sql("alter table p compact 'minor'")] == ["default.p/n=1", "default.p/n=2"]


def test_compactions_have_hives_filters(sql: Sql, deployment: Site) -> None:
    sql("alter table t compact 'major'; alter table p partition (n=1) compact 'minor' pool 'x'")
    every = [row.to_json() for row in show_compactions.show_compactions(deployment)]
    assert sql("show compactions") == every
    for text, tables in (
        ("compactionid = 1", ["t"]),
        ("t", ["t"]),
        ("default.p partition (n='1')", ["p"]),
        ("p partition (n=2)", []),
        ("schema default", ["p", "t"]),
        ("database default type 'minor'", ["p"]),
        ("pool 'x' status 'initiated'", ["p"]),
        ("status 'working'", []),
        ("order by tabname desc limit 1", ["t"]),
    ):
        assert sorted(str(row["tabname"]) for row in sql(f"show compactions {text}")) == tables, text


def test_who_waits_for_a_compaction_is_told_of_its_end(sql: Sql, deployment: Site) -> None:
    hurried = with_settings(deployment, hive_compactor_wait_timeout="1s")
    with pytest.raises(WaitTimedOut, match="compaction 1 is initiated"):
        list(run(hurried, check_text("alter table t compact 'major' and wait")))
    assert deployment.metastore.entries.get(1).state is State.INITIATED


def test_compactions_and_transactions_are_aborted(sql: Sql, deployment: Site) -> None:
    sql("alter table t compact 'major'")
    assert sql("abort compactions 1") == [{"compactionid": 1, "state": "aborted"}]
    with pytest.raises(NotFound, match="77"):
        sql("abort compactions 77")
    first, second = (deployment.metastore.transactions.open("ada", "h")[0] for _ in range(2))
    assert sql(f"abort transactions {first}") == [{"txnid": first, "state": "ABORTED"}]
    with pytest.raises(Refused, match=f"transaction {first} is aborted already; aborted are {second}"):
        sql(f"abort transactions {first} {second}")
    assert deployment.metastore.transactions.state(second) == "a"


def test_transactions_and_locks_have_hives_columns(sql: Sql, deployment: Site) -> None:
    statements = check_text(
        "start transaction; insert into t values (1); show locks; show locks t; show locks p partition (n=1); "
        "show locks database default; show locks t extended; show transactions; rollback"
    )
    every, of_table, of_partition, of_database, extended, transactions = (
        rows for rows in [list(answer.rows) for answer in run(deployment, statements)][2:8]
    )
    assert [tuple(row) for row in every] == [show_locks.LockShown.columns()]
    assert (every == of_table, of_partition, of_database) == (True, [], every)
    assert [tuple(row) for row in extended] == [show_locks.LockExtended.columns()]
    assert [tuple(row) for row in transactions] == [show_rows.TransactionRow.columns()]
    assert transactions[0]["state"] == "OPEN"


def test_explain_locks_lists_what_the_statement_takes(sql: Sql) -> None:
    found = sql("explain locks delete from p where n = 1")
    assert [(row["table"], row["partition"], row["lock_type"]) for row in found] == [("p", "n=1", "SHARED_WRITE")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("show compactions nowhere", "nowhere"),
        ("show compactions p partition (m=1)", "no partition key 'm'"),
        ("show compactions p partition (n=9)", "no partition 'n=9'"),
        ("show compactions type 'mayor'", "did you mean major"),
        ("show compactions order by nothing", "columns are"),
        ("alter table t compact 'major' with overwrite tblproperties ('no.such'='1')", "no.such"),
        ("alter table nowhere compact 'major'", "nowhere"),
        ("use nowhere", "nowhere"),
        ("show tables in nowhere", "nowhere"),
    ],
)
def test_what_is_not_there_is_named(sql: Sql, text: str, said: str) -> None:
    with pytest.raises(CompactorError, match=said):
        sql(text)
