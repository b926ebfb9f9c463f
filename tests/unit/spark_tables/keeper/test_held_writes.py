"""Several tables are written in one transaction: all of it is there, or nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import NotFound, Refused, TransactionAborted
from compactor.site.site import Site
from compactor.spark_tables.keeper.held_writes import HeldInserts
from compactor.spark_tables.keeper_requests import BeginInserts, BegunInserts, CommitInserts, MetastorePlace
from compactor.tables.store import Store
from compactor.tables.writing.part_files import write_part


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    made = Store(deployment)
    made.create_database("d", str(warehouse))
    made.create_table("d.t", {"a": "int"})
    made.create_table("d.p", {"a": "int", "k": "string"}, partitioned_by=["k"])
    return made


@pytest.fixture
def inserts(store: Store) -> HeldInserts:
    return HeldInserts()


def begun(inserts: HeldInserts, site: Site, *tables: str) -> BegunInserts:
    return inserts.begin(site, "spark", BeginInserts(place=MetastorePlace(), tables=tables))


def staged(write: BegunInserts, site: Site) -> CommitInserts:
    of_table = pa.record_batch({"a": pa.array([1, 2], pa.int32())})
    of_partitions = pa.record_batch({"a": pa.array([3], pa.int32()), "k": ["x"]})
    works = zip(write.works, (of_table, of_partitions), strict=True)
    return CommitInserts(
        hold=write.hold, parts=tuple(write_part(work, [rows], 0, site.storage) for work, rows in works)
    )


def values(store: Store) -> list[list[int]]:
    return [store.load_table(name).scan().to_arrow().column("a").to_pylist() for name in ("d.t", "d.p")]


def test_one_commit_names_the_rows_of_all_tables(inserts: HeldInserts, store: Store) -> None:
    write = begun(inserts, store.site, "d.t", "d.p")
    locks = {(lock.database, lock.table, lock.txn) for lock in store.site.metastore.locks.show()}
    assert locks == {("d", "t", write.hold.txn), ("d", "p", write.hold.txn)}
    commit = staged(write, store.site)
    assert values(store) == [[], []]
    assert inserts.commit(commit) == 3
    assert values(store) == [[1, 2], [3]]
    assert not inserts
    with pytest.raises(TransactionAborted, match="no longer held"):
        inserts.commit(commit)
    assert values(store) == [[1, 2], [3]]


def test_an_abort_leaves_nothing_in_any_table(inserts: HeldInserts, store: Store, warehouse: Path) -> None:
    write = begun(inserts, store.site, "d.t", "d.p")
    staged(write, store.site)
    assert inserts.abort(write.hold.name) is True
    assert values(store) == [[], []]
    assert list(warehouse.rglob(".compactor_w*")) == []
    assert store.site.metastore.transactions.open_transactions() == []


def test_a_failure_in_one_table_names_nothing_in_the_others(
    inserts: HeldInserts, store: Store, warehouse: Path
) -> None:
    write = begun(inserts, store.site, "d.t", "d.p")
    commit = staged(write, store.site)
    [lost] = warehouse.glob("p/.compactor_w*/attempts/*/bucket_*")
    lost.write_bytes(lost.read_bytes()[:-1])
    with pytest.raises(Exception, match="nothing was published"):
        inserts.commit(commit)
    assert values(store) == [[], []]
    assert list(warehouse.rglob(".compactor_w*")) == []


def test_a_table_is_written_by_one_insert(inserts: HeldInserts, store: Store) -> None:
    with pytest.raises(Refused, match="a table is named twice"):
        begun(inserts, store.site, "d.t", "d.T")
    with pytest.raises(NotFound, match="nowhere"):
        begun(inserts, store.site, "d.t", "d.nowhere")
    assert store.site.metastore.transactions.open_transactions() == []
