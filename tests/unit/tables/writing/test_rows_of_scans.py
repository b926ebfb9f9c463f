"""PROTOCOL 14.27: a scan whose rows are written is read in the transaction of that write, under its lock and snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import NotConforming, Refused, WriteConflict
from compactor.base.steps import TransactionStep, WriteStep
from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.store import Store
from compactor.tables.table import Table
from tests.support.interleaving import Interleaving, interleaving
from tests.support.tables import with_settings


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    store = Store(with_settings(deployment, compactor_lock_wait="1s"))
    store.create_database("default", str(warehouse))
    store.create_table("default.t", {"a": "int", "b": "int"}).append(pa.table({"a": [1, 2], "b": [10, 20]}))
    return store


@pytest.fixture
def stage() -> Iterator[Interleaving]:
    with interleaving() as opened:
        yield opened


def scan_rows(store: Store, name: str = "t") -> list[tuple[int, int]]:
    return sorted((row["a"], row["b"]) for row in store.load_table(f"default.{name}").scan().to_arrow().to_pylist())


@pytest.mark.parametrize(
    "write",
    [lambda table: table.overwrite(table.scan("b > 10")), lambda table: table.upsert(table.scan("b > 10"), ["a"])],
    ids=["overwrite", "upsert"],
)
@pytest.mark.parametrize("stop", [WriteStep.WRITE_BEGUN, WriteStep.WRITE_STAGED])
def test_a_write_that_waited_reads_what_was_committed_meanwhile(
    store: Store, stage: Interleaving, write: Callable[[Table], object], stop: WriteStep
) -> None:
    """By rows that were read before its lock, the UPDATE of whoever held that would be lost."""
    updating = stage.begin(lambda: store.load_table("default.t").update({"b": "11"}, "a = 1"))
    updating.run_to(stop)
    writing = stage.begin(lambda: write(store.load_table("default.t")))
    writing.run_to(TransactionStep.LOCK_AWAITED)
    assert updating.end() == 1
    writing.end()
    assert scan_rows(store) == [(1, 11), (2, 20)]


def test_create_table_as_reads_one_snapshot_under_its_lock(store: Store, stage: Interleaving) -> None:
    creating = stage.begin(lambda: list(run(store.site, check_text("CREATE TABLE u AS SELECT * FROM t"))))
    creating.run_to(TransactionStep.SNAPSHOT_TAKEN)
    assert store.load_table("default.t").update({"b": "11"}, "a = 1") == 1
    creating.end()
    assert scan_rows(store, "u") == [(1, 10), (2, 20)]


def test_an_append_of_itself_reads_its_own_snapshot_and_no_row_of_its_own(store: Store) -> None:
    table = store.load_table("default.t")
    assert table.append(table.scan("a = 2", selected_fields=["a"])) == 1
    assert store.load_table("default.t").scan("b IS NULL").count() == 1


def test_a_transaction_that_has_read_what_it_overwrites_is_refused_what_it_does_not_see(store: Store) -> None:
    with store.transaction() as txn:
        table = txn.load_table("default.t")
        table.scan().count()
        store.load_table("default.t").append(pa.table({"a": [3], "b": [30]}))
        with pytest.raises(WriteConflict):
            table.overwrite(table.scan("a = 1"))
    assert scan_rows(store) == [(1, 10), (2, 20), (3, 30)]


def test_a_scan_of_another_transaction_is_refused(store: Store) -> None:
    with (
        store.transaction() as txn,
        pytest.raises(Refused, match=r"the scan belongs to transaction \d+, but transaction"),
    ):
        store.load_table("default.t").append(txn.load_table("default.t").scan())


def test_a_mutation_takes_no_scan(store: Store) -> None:
    table = store.load_table("default.t")
    with table.mutate(key=["a"]) as mutation, pytest.raises(NotConforming, match="given as Scan"):
        mutation.insert(table.scan())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "write",
    [lambda table: table.overwrite(table.scan("a > 1")), lambda table: table.append(table.scan("a > 1"))],
    ids=["overwrite", "append"],
)
def test_a_write_of_a_scan_does_not_wait_for_who_waits_for_it(
    store: Store, stage: Interleaving, write: Callable[[Table], object]
) -> None:
    """PROTOCOL 14.2: for the locks to read partitions it queued behind a RENAME that waited for its first lock."""
    store.create_table("default.p", {"a": "int", "b": "int"}, partitioned_by=["b"])
    store.load_table("default.p").append(pa.table({"a": [1, 2], "b": [10, 20]}))
    writing = stage.begin(lambda: write(store.load_table("default.p")))
    writing.run_to(TransactionStep.LOCKED)
    renaming = stage.begin(lambda: list(run(store.site, check_text("ALTER TABLE p RENAME TO q"))))
    renaming.run_to(TransactionStep.LOCK_AWAITED)
    assert writing.end() == 1
    renaming.end()
    assert (2, 20) in scan_rows(store, "q")
