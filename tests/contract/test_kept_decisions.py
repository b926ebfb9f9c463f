"""A pass that remembers asks for the same as one that does not, over every database."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import event

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.states import State
from compactor.initiator.initiator import initiate, look_again
from compactor.metastore.metastore import Metastore
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.state.state_database import OwnState
from tests.support.many import make_partitions, site_of
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of
from tests.support.passes import clean_all


@pytest.fixture
def site(metastore: Metastore, state: OwnState) -> Site:
    return site_of(
        metastore,
        state,
        hive_compactor_delta_num_threshold="2",
        hive_txn_opentxn_timeout="1ms",
        compactor_forget_grace="0s",
    )


def test_what_is_due_is_found_among_what_is_remembered(site: Site, tmp_path: Path) -> None:
    table = make_partitioned(site, tmp_path, key="string")
    for value in ("a", "B", "c d"):
        add_partition(site, table, value)
        insert_into(site, table, value, [1])
    add_partition(site, table, "10%")
    insert_into(site, table, "10%25", [1], under="10%2525")  # as Hive 4 records a static partition
    assert (len(initiate(site).considered), initiate(site).kept) == (4, 4)
    for row in (2, 3):
        insert_into(site, table, "B", [row])
    done = initiate(site)
    assert [(one.entity, one.outcome) for one in done.considered] == [(partition_of(table, "B"), "major")]
    assert (len(done.enqueued), done.kept) == (1, 3)
    assert [one.outcome for one in initiate(site).considered] == ["skipped"]
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    done = initiate(site)
    assert (done.considered, done.kept) == ((), 3)
    assert site.state is not None
    seen = site.state.conditions.for_entities(site.name, [partition_of(table, "B")])
    assert [one.outcome for one in seen.values()] == ["notneeded"]


def test_what_has_ended_is_told_by_entity(site: Site, tmp_path: Path) -> None:
    table = make_partitioned(site, tmp_path, key="string")
    for value in ("a", "A"):
        add_partition(site, table, value)
        for row in (1, 2):
            insert_into(site, table, value, [row])
    small, large = (partition_of(table, value) for value in ("a", "A"))
    request_compaction(site, table="default.t", partition=small.partition, type="major")
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    lost = site.metastore.requests.did_not_initiate(large, "by a test")
    name = ("default", "t")
    found = site.metastore.entries.ended([name, ("default", "none")])
    assert found["default", "none"] == {}
    (done,) = site.metastore.entries.history(small)
    assert found[name][small.partition] == (done.id, done.end, done.commit_time, 0)
    assert (found[name][large.partition].newest, found[name][large.partition].others) == (lost, 1)
    (entry,) = site.metastore.entries.unsuccessful_histories([name])[large]
    assert (entry.id, entry.state) == (lost, State.DID_NOT_INITIATE)
    assert small not in site.metastore.entries.unsuccessful_histories([name])
    assert done.end is not None
    assert site.metastore.entries.ended_since(done.end) == {small, large}
    assert site.metastore.entries.ended_since(site.metastore.now_ms() + 1000) == set()


@pytest.mark.usefixtures("hive4")
def test_statements_of_a_pass_that_remembers_do_not_grow(site: Site, tmp_path: Path) -> None:
    """A fixed number, however many tables and partitions keep their decisions, or have lost them."""
    counts = []
    for more in "abc":
        for number in range(10):
            make_partitions(site.metastore, tmp_path, 30 if number else 1, deltas=1, name=f"{more}{number}")
        counts.append([_statements(site), _statements(site)])
        look_again(site)
        counts[-1].append(_statements(site))
    assert counts[2] == counts[1]


def _statements(site: Site) -> int:
    statements: list[str] = []

    def seen(conn: object, cursor: object, statement: str, *others: object) -> None:
        statements.append(statement)

    event.listen(site.metastore.database.engine, "before_cursor_execute", seen)
    try:
        initiate(site)
    finally:
        event.remove(site.metastore.database.engine, "before_cursor_execute", seen)
    return len(statements)
