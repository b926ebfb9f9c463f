from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compactor.answers.table_commits import TableCommits, TableVersion, commits_since
from compactor.base.errors import Refused
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from tests.support.tables import insert, make_table

T = "default.t"


def news(site: Site, seen: TableVersion | None) -> tuple[TableVersion, list[int]]:
    now, found = commits_since(site, T, seen)
    return TableVersion.from_json(now.to_json()), [] if found is None else list(found.write_ids)


def test_the_wait_begins_with_the_first_look(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    insert(deployment, table, [1])
    seen, found = news(deployment, None)
    assert found == []
    assert news(deployment, seen) == (seen, [])
    insert(deployment, table, [2])
    insert(deployment, table, [3], commits=False)
    insert(deployment, table, [4])
    seen, found = news(deployment, seen)
    assert found == [2, 4]
    assert news(deployment, seen) == (seen, [])


def test_a_transaction_that_began_first_and_commits_last_is_not_missed(deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse)
    metastore = deployment.metastore
    seen, _ = news(deployment, None)
    slow, quick = metastore.transactions.open("u", "h", count=2)
    for txn in (slow, quick):
        metastore.write_ids.allocate(txn, "default", "t")
    metastore.transactions.commit(quick)
    seen, found = news(deployment, seen)
    assert found == [2]
    metastore.transactions.commit(slow)
    seen, found = news(deployment, seen)
    assert found == [1]


def test_compactions_are_no_commits(deployment: Site, warehouse: Path) -> None:
    table = make_table(deployment, warehouse)
    for value in range(3):
        insert(deployment, table, [value])
    seen, _ = news(deployment, None)
    request_compaction(deployment, table=T, type="major")
    run_entries(deployment, list_claimable_ids(deployment), InProcessRunner())
    [rebalance] = deployment.metastore.transactions.open("u", "h", type=TxnType.REBALANCE_COMPACTION)
    deployment.metastore.write_ids.allocate(rebalance, "default", "t")
    deployment.metastore.transactions.commit(rebalance)
    seen, found = news(deployment, seen)
    assert found == []
    insert(deployment, table, [9])
    assert news(deployment, seen)[1] == [5]


def test_a_table_may_come_later_and_be_made_anew(deployment: Site, warehouse: Path) -> None:
    seen, found = news(deployment, None)
    assert (seen.table, found) == (None, [])
    insert(deployment, make_table(deployment, warehouse), [1])
    seen, found = news(deployment, seen)
    assert found == [1]
    assert news(deployment, replace(seen, table=(seen.table or 0) + 1))[1] == [1]


def test_an_event_is_plain_values() -> None:
    found = TableCommits(table=T, write_ids=(3, 5), partitions=("p=1",))  # type: ignore[arg-type]
    wanted = {"table": T, "commits": 2, "first_write_id": 3, "last_write_id": 5, "partitions": ["p=1"]}
    assert found.to_json() == wanted
    assert replace(found, partitions=None).to_json()["partitions"] is None


def test_a_table_without_transactions_is_refused(deployment: Site, warehouse: Path) -> None:
    make_table(deployment, warehouse, transactional="false", transactional_properties="")
    with pytest.raises(Refused, match=r"default\.t is not transactional"):
        commits_since(deployment, T, None)
