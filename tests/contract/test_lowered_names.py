"""Hive 3.1 records a static INSERT, and every lock on a partition, in lower case: ``p=us`` is written for ``p=US``.

Such rows are in its schema, and after an upgrade in Hive 4's. Hive 4 takes keys in any case, and values as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select, update

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.cleaner.cleaner import clean
from compactor.compaction.portions import Portion
from compactor.compaction.queue_entry import Entity
from compactor.initiator.candidate_page import CandidatePage
from compactor.initiator.candidate_scan import CandidateScan
from compactor.initiator.initiator import initiate
from compactor.locking.lock_types import LockRequest, LockType
from compactor.metastore.catalog.values import Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema import tables as t
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state.state_upgrade import init
from compactor.worker.ending import Result
from tests.support.partitioned import add_partition, insert_into, make_partitioned, partition_of, values_in
from tests.support.passes import clean_all
from tests.support.tables import with_settings
from tests.support.watching import names_in


@pytest.fixture
def site(metastore: Metastore, store: str, url: str, tmp_path: Path) -> Iterator[Site]:
    """A site on that metastore, which removes aborted writes as soon as it sees them."""
    if store == "sqlite":
        init(url).close()
    with open_site(configure(flags={"url": url, "compactor.mode": "clean"}, environment={})) as opened:
        yield with_settings(opened, hive_txn_opentxn_timeout="1ms", hive_compactor_abortedtxn_threshold="0")


@pytest.fixture
def table(site: Site, tmp_path: Path) -> Table:
    return make_partitioned(site, tmp_path, key="string")


def recorded(site: Site, table: Table) -> dict[str, list[str]]:
    """The partitions in the rows of committed and of aborted writes."""
    prefixes = {"CTC": t.COMPLETED_TXN_COMPONENTS, "TC": t.TXN_COMPONENTS}
    with site.metastore.database.read() as conn:
        return {
            prefix: sorted(conn.execute(select(rows.c[f"{prefix}_PARTITION"])).scalars())
            for prefix, rows in prefixes.items()
        }


def candidates(site: Site) -> set[Entity]:
    scan = CandidateScan(site)
    tables = tuple(scan.candidate_tables())
    return {one.entity for one in CandidatePage(scan, tables).sort_out(Portion(tables=tables)).pending}


def compact(site: Site, table: Table, value: str) -> None:
    request_compaction(site, table=str(table), type="major", partition=f"p={value}")
    [done] = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    assert done.result is Result.COMPACTED


def record_under(site: Site, before: str, name: str) -> None:
    """Changes a name in the rows of committed and aborted writes."""
    with site.metastore.database.write() as conn:
        for prefix, rows in (("CTC", t.COMPLETED_TXN_COMPONENTS), ("TC", t.TXN_COMPONENTS)):
            partition = rows.c[f"{prefix}_PARTITION"]
            conn.execute(update(rows).where(partition == before).values({partition.name: name}))


@pytest.mark.parametrize("under", ["p=us", "P=US"])
def test_an_insert_of_hive_is_a_reason_to_compact_its_partition(site: Site, table: Table, under: str) -> None:
    """Hive 3.1's own initiator takes the partition for one that was dropped, and never compacts it."""
    for value in ("US", "de"):
        add_partition(site, table, value)
    for number in range(12):
        insert_into(site, table, "US", [number])
    record_under(site, "p=US", under)
    insert_into(site, table, "de", [1])
    assert candidates(site) == {partition_of(table, value) for value in ("US", "de")}
    initiate(site)
    assert [entry.entity for entry in site.metastore.entries.queue()] == [partition_of(table, "US")]
    run_entries(site, list_claimable_ids(site), InProcessRunner())
    clean_all(site)
    assert values_in(site, table, "US") == list(range(12))
    assert recorded(site, table) == {"CTC": ["p=de"], "TC": []}


@pytest.mark.parametrize("under", ["p=uS", "P=Us", "q=us", "p=us/q=1"])
def test_a_partition_that_was_dropped_stays_one(site: Site, table: Table, under: str) -> None:
    """The values of a name have a case, unless Hive 3.1 took it from all of them."""
    add_partition(site, table, "US")
    for number in range(12):
        insert_into(site, table, "US", [number])
    record_under(site, "p=US", under)
    (entity,) = candidates(site)
    assert entity.partition == under
    initiate(site)
    assert site.metastore.entries.queue() == []


@pytest.mark.usefixtures("hive3")
def test_a_record_that_may_mean_two_partitions_is_a_reason_to_look_at_both(site: Site, table: Table) -> None:
    for value in ("US", "us"):
        add_partition(site, table, value)
    for number in (0, 1):
        insert_into(site, table, "US", [number], under="us")
    assert candidates(site) == {partition_of(table, value) for value in ("US", "us")}
    insert_into(site, table, "us", [2])
    compact(site, table, "US")
    clean_all(site)
    assert recorded(site, table)["CTC"] == ["p=us"] * 3  # the last is of the other partition


@pytest.mark.parametrize("under", ["p=us", "P=US"])
def test_what_was_aborted_is_removed_and_forgotten(site: Site, table: Table, tmp_path: Path, under: str) -> None:
    """PROTOCOL 8, by the cleaner alone and with a compaction."""
    add_partition(site, table, "US")
    insert_into(site, table, "US", [1])
    insert_into(site, table, "US", [2], commits=False)
    record_under(site, "p=US", under)
    assert [cleaned.entity for cleaned in clean(site).cleaned] == [partition_of(table, "US")]
    assert recorded(site, table)["TC"] == []
    insert_into(site, table, "US", [3], commits=False)
    record_under(site, "p=US", under)
    insert_into(site, table, "US", [4])
    compact(site, table, "US")
    clean_all(site)
    assert recorded(site, table)["TC"] == []
    (base,) = names_in(tmp_path / "t" / "p=US")
    assert base.partition("_v")[0] == "base_0000004"
    assert values_in(site, table, "US") == [1, 4]


@pytest.mark.parametrize(("cleaned", "other"), [("US", "us"), ("us", "US"), ("Us", "US")])
def test_what_may_be_in_another_partition_is_not_forgotten(
    site: Site, table: Table, tmp_path: Path, cleaned: str, other: str
) -> None:
    """PROTOCOL 8: once forgotten, what was aborted counts as committed, so the partition that is really meant keeps it."""
    for value in (cleaned, other):
        add_partition(site, table, value)
        for number in (0, 1):
            insert_into(site, table, value, [number])
    insert_into(site, table, other, [9], under="us", commits=False)
    insert_into(site, table, other, [2])
    held = with_settings(site, hive_txn_opentxn_timeout="1ms")  # nothing is past a threshold
    compact(held, table, cleaned)
    clean_all(held)
    assert recorded(site, table)["TC"] == ["p=us"]
    assert values_in(site, table, other) == [0, 1, 2]
    compact(held, table, other)
    clean_all(held)
    clean(site)  # in Hive 4's schema the record counts for the partition of that name, whose cleaning was too early
    assert recorded(site, table)["TC"] == []
    assert (values_in(site, table, other), values_in(site, table, cleaned)) == ([0, 1, 2], [0, 1])


def test_a_partition_beyond_ascii_is_told_apart_as_hive_does(metastore: Metastore, site: Site, table: Table) -> None:
    """Whatever the database makes of its letters."""
    for value in ("ZÜRICH", "zürich", "ZURICH"):
        add_partition(site, table, value)
    assert metastore.components.are_shared(partition_of(table, "ZÜRICH"))
    assert metastore.components.are_shared(partition_of(table, "zürich"))
    assert not metastore.components.are_shared(partition_of(table, "ZURICH"))


@pytest.mark.usefixtures("hive3")
def test_a_lock_of_hive_meets_ours(metastore: Metastore) -> None:
    """PROTOCOL 9: in both directions, and it is shown."""
    large = Entity(database="default", table="t", partition="p=US")
    theirs, ours = metastore.transactions.open("u", "h", count=2)
    wanted = {
        kind: LockRequest(database="default", table="t", partition=large.partition, type=kind)
        for kind in (LockType.EXCLUSIVE, LockType.SHARED_READ)
    }
    metastore.locks.acquire(theirs, [wanted[LockType.EXCLUSIVE]], "u", "h")
    with metastore.database.write() as conn:
        columns = t.HIVE_LOCKS.c
        conn.execute(t.HIVE_LOCKS.delete().where(columns.HL_PARTITION == "p=US"))
    assert [row.partition for row in metastore.locks.show("default", "t", "p=US")] == ["p=us"]
    assert metastore.locks.try_acquire(ours, [wanted[LockType.SHARED_READ]], "u", "h") is None
    with metastore.database.write() as conn:
        conn.execute(update(t.HIVE_LOCKS).values(HL_LOCK_STATE="w"))
    assert metastore.locks.awaited_exclusively([large]) == {large}
    metastore.transactions.abort(theirs, "over")
    metastore.locks.acquire(ours, [wanted[LockType.SHARED_READ]], "u", "h")
    assert [row.partition for row in metastore.locks.show()] == ["p=US", "p=us"]
