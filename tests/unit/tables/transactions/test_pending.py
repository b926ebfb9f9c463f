"""Several statements of one transaction, of which some fail, replace others, or come too late."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from sqlalchemy import delete, select

from compactor.acid.names import Base, Delta, DeltaKind
from compactor.base.errors import LockLost, NotSupported, WriteConflict
from compactor.base.ids import WriteId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.notifications.write_events import Write
from compactor.metastore.schema.tables import HIVE_LOCKS, TXN_COMPONENTS
from compactor.rewrite.publish.stage import StagedDirectory, StagedFile
from compactor.site.site import Site
from compactor.tables.store import Store
from compactor.tables.table import Table
from compactor.tables.transactions.pending import PendingDirectory, Written
from tests.support.partitioned import add_partition, make_partitioned
from tests.support.tables import insert, make_table, with_settings

PART = Entity(database="default", table="t", partition="p=1")
OTHER = Entity(database="default", table="u", partition=None)


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    site = with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_lock_wait="100ms")
    make_table(site, warehouse)
    Store(site).load_table("default.t").append(make_rows(1, 2, 3))
    return Store(site)


def make_rows(*values: int, **more: list[str]) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int32()), "b": ["x"] * len(values), **more})


def values(table: Table) -> list[int]:
    return sorted(table.scan().to_arrow().column("a").to_pylist())


def test_nothing_is_added_to_what_the_transaction_has_overwritten(store: Store) -> None:
    """Readers skip every delta up to the write ID of a base: rows that come after it in its transaction would be lost."""
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        table.overwrite(make_rows(7, 8))
        for statement in (
            lambda: table.append(make_rows(9)),
            lambda: table.delete("a = 7"),
            lambda: table.update({"b": "'y'"}, "a = 7"),
            lambda: table.upsert(make_rows(7), ["a"]),
        ):
            with pytest.raises(NotSupported, match="has overwritten it"):
                statement()
        assert values(table) == [7, 8]
    assert values(store.load_table("default.t")) == [7, 8]


def test_an_overwrite_replaces_what_its_transaction_wrote_before(store: Store, warehouse: Path) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        table.append(make_rows(4))
        table.delete("a = 1")
        table.overwrite(make_rows(7))
        table.overwrite(make_rows(8, 9))
        assert values(table) == [8, 9]
    assert values(store.load_table("default.t")) == [8, 9]
    assert sorted(path.name for path in (warehouse / "t").iterdir()) == ["base_0000002", "delta_0000001_0000001_0000"]


def sorted_table(store: Store, warehouse: Path) -> None:
    """Creates ``default.s`` with two rows, which programs may delete and not insert."""
    (warehouse / "s").mkdir()
    columns = [Column(name="a", type="int"), Column(name="b", type="string")]
    new = NewTable(
        "default", "s", str(warehouse / "s"), columns, parameters={"transactional": "true"}, sort_columns=["a"]
    )
    insert(store.site, store.site.metastore.embedded_catalog.create_table(new), [1, 2])


def test_a_statement_that_fails_leaves_nothing_that_a_commit_would_name(store: Store, warehouse: Path) -> None:
    """An UPDATE whose rows were deleted and whose new rows were refused: the program went on, and lost them."""
    sorted_table(store, warehouse)
    with store.transaction() as txn:
        txn.load_table("default.t").append(make_rows(4))
        table = txn.load_table("default.s")
        with pytest.raises(NotSupported, match="is sorted"):
            table.update({"b": "'y'"}, "a = 1")
        assert values(table) == [1, 2]
    assert values(store.load_table("default.s")) == [1, 2]
    assert values(store.load_table("default.t")) == [1, 2, 3, 4]


def test_a_failed_statement_over_partitions_stands_for_none_of_them(store: Store, warehouse: Path) -> None:
    made = make_partitioned(store.site, warehouse, "p", key="string")
    for day in "xy":
        add_partition(store.site, made, day)
    with store.transaction() as txn:
        table = txn.load_table("default.p")
        table.overwrite(make_rows(1, p=["y"]))
        with pytest.raises(NotSupported, match="has overwritten it"):
            table.append(make_rows(2, 3, p=["x", "y"]))
        with store.site.metastore.database.read() as conn:
            recorded = conn.execute(select(TXN_COMPONENTS.c.TC_PARTITION).distinct()).scalars().all()
        assert set(recorded) <= {"p=x", "p=y"}, "the provisional component of the whole table is gone"
    assert values(store.load_table("default.p")) == [1]


def _reads_and_overwrites(store: Store) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        read = table.scan().to_arrow()
        store.load_table("default.t").append(make_rows(4))
        table.overwrite(read)


def test_rows_that_came_since_it_looked_are_not_overwritten(store: Store) -> None:
    with pytest.raises(WriteConflict, match="wrote into it"):
        _reads_and_overwrites(store)
    assert values(store.load_table("default.t")) == [1, 2, 3, 4]


def _looks_and_upserts(store: Store) -> None:
    earlier = store.transaction()
    first = earlier.__enter__()
    with store.transaction() as later:
        later.load_table("default.t").scan().count()
        first.load_table("default.t").append(make_rows(9))
        earlier.__exit__(None, None, None)
        later.load_table("default.t").upsert(make_rows(9), ["a"])


def test_an_upsert_sees_rows_of_a_transaction_that_is_older_than_its_own(store: Store) -> None:
    """It was open when the later one looked, so that its TXN_ID tells nothing: the key was there twice."""
    with pytest.raises(WriteConflict, match="wrote into it"):
        _looks_and_upserts(store)
    assert values(store.load_table("default.t")) == [1, 2, 3, 9]


def test_the_snapshot_is_that_of_the_first_statement_also_of_one_that_only_writes(store: Store) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        table.append(make_rows(4))
        store.load_table("default.t").append(make_rows(5))
        assert values(table) == [1, 2, 3, 4]
    assert values(store.load_table("default.t")) == [1, 2, 3, 4, 5]


def _loses_its_locks(store: Store) -> None:
    with store.transaction() as txn:
        txn.load_table("default.t").upsert(make_rows(9), ["a"])
        with store.site.metastore.database.write() as conn:
            conn.execute(delete(HIVE_LOCKS))


def test_a_commit_whose_locks_are_gone_fails(store: Store) -> None:
    with pytest.raises(LockLost, match="its locks are gone"):
        _loses_its_locks(store)
    assert values(store.load_table("default.t")) == [1, 2, 3]


def staged(acid: Base | Delta, *names: str) -> PendingDirectory:
    files = tuple(StagedFile(name=name, length=1, crc32=0, rows=1) for name in names)
    return PendingDirectory(acid=acid, staged=StagedDirectory(name=acid.name, staged="/s", files=files), inputs=())


def test_files_are_those_staged_at_its_location() -> None:
    written = Written()
    written.note(PART, WriteId(4), "/w/t/p=1")
    written.note(OTHER, WriteId(2), "/w/u")
    inserts = Delta(kind=DeltaKind.INSERT, min_write_id=WriteId(4), max_write_id=WriteId(4), statement_id=1)
    deletes = Delta(kind=DeltaKind.DELETE, min_write_id=WriteId(4), max_write_id=WriteId(4), statement_id=0)
    directories = {"/w/t/p=1": [staged(deletes, "bucket_00000"), staged(inserts, "bucket_00000", "bucket_00001")]}
    files = {
        "delete_delta_0000004_0000004_0000": ["bucket_00000"],
        "delta_0000004_0000004_0001": ["bucket_00000", "bucket_00001"],
    }
    assert written.writes(directories, [PART]) == [
        Write(entity=PART, write_id=WriteId(4), files=files, is_new=True),
        Write(entity=OTHER, write_id=WriteId(2)),
    ]
