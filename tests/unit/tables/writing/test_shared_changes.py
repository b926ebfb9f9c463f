"""Changes that several processes write as one statement: as if one had written them, in one commit."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import NotFound, NotSupported, Refused, VerificationFailed
from compactor.locking.lock_requests import LockType
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables.reading.scan_planning import plan_scan
from compactor.tables.reading.scan_request import ScanRequest
from compactor.tables.reading.task_reader import read_task
from compactor.tables.schema import IN_PARTS, ROW_ID
from compactor.tables.store import named_table
from compactor.tables.table import Table
from compactor.tables.transactions.transaction import Transaction
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing.change_parts import write_changes
from compactor.tables.writing.row_change import FILE, FILE_TYPE, KIND, Changed, Kind
from compactor.tables.writing.shared_changes import Intent, begin_changes, finish_changes
from compactor.tables.writing.shared_statement import SharedChange
from compactor.tables.writing.written_part import ChangedPart

Decide = Callable[[int], tuple[Kind, int]]
EVERYTHING = Intent(deletes=True, assigns=frozenset({"v"}), inserts=True)


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    found = Store(deployment)
    found.create_database("db", str(warehouse))
    return found


def found_rows(txn: Transaction, site: Site, name: str) -> list[pa.Table]:
    """Reads all rows with the files that hold them, as a reader of Spark does: a table for each file number."""
    plan = plan_scan(txn, named_table(site, name), ScanRequest(row_ids=True, timestamps=IN_PARTS))
    found = []
    for task in plan.tasks:
        rows = pa.Table.from_batches(read_task(plan, task, site.storage), plan.schema)
        file = {"partition": task.partition or "", "number": task.number}
        found.append(rows.append_column(FILE, pa.array([file] * rows.num_rows, FILE_TYPE)))
    return found


def changed(rows: pa.Table, decide: Decide) -> list[pa.RecordBatch]:
    """Gives each row, by its ``i``, a kind and another ``v``."""
    made = []
    for row in sorted(rows.to_pylist(), key=lambda row: tuple(row[ROW_ID].values())):
        kind, value = decide(row["i"])
        if kind is not Kind.NOTHING:
            made.append({KIND: int(kind), **row, "v": value})
    schema = pa.schema([pa.field(KIND, pa.int32()), *rows.schema])
    return [pa.RecordBatch.from_pylist(made, schema)] if made else []


def added(like: pa.Table, *rows: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([pa.field(KIND, pa.int32()), *(field.with_nullable(True) for field in like.schema)])
    return pa.RecordBatch.from_pylist([{KIND: int(Kind.INSERT), **row} for row in rows], schema)


def written(work: SharedChange, site: Site, writer: int, batches: list[pa.RecordBatch]) -> ChangedPart:
    """Writes in what could be another process: all that it is given and returns has travelled."""
    travelled: SharedChange = pickle.loads(pickle.dumps(work))
    return pickle.loads(pickle.dumps(write_changes(travelled, batches, writer, site.storage)))  # type: ignore[no-any-return]  # what was pickled


def change(site: Site, name: str, intent: Intent, decide: Decide, *new: dict[str, Any]) -> Changed:
    """Changes rows as one writer for each file number does it, and one more for those that are added."""
    with transaction(site) as txn:
        statements, work = begin_changes(txn, named_table(site, name), intent)
        tables = found_rows(txn, site, name)
        parts = [written(work, site, writer, changed(rows, decide)) for writer, rows in enumerate(tables)]
        if new:
            parts.append(written(work, site, len(tables), [added(tables[0], *new)]))
        finish_changes(txn, statements, parts)
    return Changed.total(part.counts for part in parts)


def some(number: int) -> tuple[Kind, int]:
    """Deletes every third row, updates the next one."""
    return [(Kind.DELETE, 0), (Kind.UPDATE, -number), (Kind.NOTHING, 0)][number % 3]


def rows_of(table: Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())


def filled(store: Store, name: str, **more: Any) -> Table:
    """A table with two deltas and rows that were deleted."""
    table = store.create_table(name, {"i": "bigint", "v": "int", "p": "string"}, **more)
    rows = list(range(20))
    for part in (rows[:12], rows[12:]):
        table.append(pa.table({"i": part, "v": part, "p": [str(one % 2) for one in part]}))
    table.delete("i = 3 or i = 13")
    return table


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "bucketed": {"clustered_by": (["i"], 3)},
    "partitioned": {"partitioned_by": ["p"]},
    "both": {"partitioned_by": ["p"], "clustered_by": (["i"], 2)},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_are_changed_as_one_process_changes_them(store: Store, deployment: Site, shape: str) -> None:
    ours, twin = (filled(store, f"db.{name}", **SHAPES[shape]) for name in ("ours", "twin"))
    new = {"i": 100, "v": 7, "p": "new"}
    counts = change(deployment, "db.ours", EVERYTHING, some, new)
    gone = [str(i) for i in range(20) if i % 3 == 0 and i not in (3, 13)]
    assert twin.delete(f"i in ({', '.join(gone)})") == counts.deleted
    for number in (i for i in range(20) if i % 3 == 1 and i not in (3, 13)):
        assert twin.update({"v": str(-number)}, f"i = {number}") == 1
    twin.append(pa.table({name: [value] for name, value in new.items()}))
    assert rows_of(ours) == rows_of(twin)
    assert counts == Changed(deleted=6, updated=6, inserted=1)
    assert ours.partitions == twin.partitions
    for partition in ours.partitions[:2] or (None,):
        ours.compact(partition=partition, wait=True, here=True)
    assert rows_of(ours) == rows_of(twin)


def test_delete_events_and_rows_have_one_write_id_and_the_writers_statement_ids(
    store: Store, deployment: Site, warehouse: Path
) -> None:
    filled(store, "db.t")
    change(deployment, "db.t", EVERYTHING, some, {"i": 100, "v": 7, "p": "x"})
    assert sorted(path.name for path in (warehouse / "t").glob("*delta_0000004*")) == [
        "delete_delta_0000004_0000004_0000",
        "delta_0000004_0000004_0000",
        "delta_0000004_0000004_0001",
    ]


def test_an_attempt_that_was_not_accepted_is_nowhere(store: Store, deployment: Site, warehouse: Path) -> None:
    """TABLES rule 14: task commits are idempotent by attempt."""
    table = filled(store, "db.t", partitioned_by=["p"])
    with transaction(deployment) as txn:
        statements, work = begin_changes(txn, named_table(deployment, "db.t"), EVERYTHING)
        tables = found_rows(txn, deployment, "db.t")
        for writer, rows in enumerate(tables):
            written(work, deployment, writer, changed(rows, lambda _: (Kind.DELETE, 0)))
        parts = [written(work, deployment, at, changed(rows, some)) for at, rows in enumerate(tables)]
        finish_changes(txn, statements, parts)
    assert len(rows_of(table)) == 12
    assert list(warehouse.rglob(".compactor_w*")) == []


def test_rows_of_an_original_file_are_deleted_by_the_number_of_their_file(
    store: Store, deployment: Site, warehouse: Path
) -> None:
    """TABLES rule 6: ``000002_0`` need not hold the bucket that its rows' ROW__IDs have."""
    table = store.create_table("db.t", {"i": "bigint", "v": "int", "p": "string"})
    other = store.create_table("db.other", {"i": "bigint", "v": "int", "p": "string"}, clustered_by=(["i"], 4))
    other.append(pa.table({"i": [1, 2, 4, 5], "v": [1, 2, 4, 5], "p": ["x"] * 4}))
    table.append(pa.table({"i": [9], "v": [9], "p": ["x"]}))
    for path in (warehouse / "other").rglob("bucket_*"):
        (warehouse / "t" / "delta_0000001_0000001_0000" / path.name).write_bytes(path.read_bytes())
    before = [row[0] for row in rows_of(table)]
    change(deployment, "db.t", Intent(deletes=True), lambda i: (Kind.DELETE, 0) if i < 4 else (Kind.NOTHING, 0))
    assert [row[0] for row in rows_of(table)] == [i for i in before if i >= 4]


def test_nothing_that_is_found_changes_nothing(store: Store, deployment: Site, warehouse: Path) -> None:
    table = filled(store, "db.t", partitioned_by=["p"])
    before = rows_of(table)
    assert change(deployment, "db.t", EVERYTHING, lambda _: (Kind.NOTHING, 0)) == Changed()
    assert rows_of(table) == before
    assert list((warehouse / "t").rglob("*delta_0000004*")) == []
    assert list(warehouse.rglob(".compactor_w*")) == []


def test_partition_and_bucketing_columns_are_not_assigned(store: Store, deployment: Site) -> None:
    """TABLES rule 9."""
    store.create_table("db.t", {"i": "bigint", "p": "int"}, partitioned_by=["p"], clustered_by=(["i"], 2))
    for name, why in (("P", "partition column"), ("i", "bucketing column")):
        with pytest.raises(NotSupported, match=why), transaction(deployment) as txn:
            begin_changes(txn, named_table(deployment, "db.t"), Intent(assigns=frozenset({name})))
    with pytest.raises(NotFound, match="no column 'x'"), transaction(deployment) as txn:
        begin_changes(txn, named_table(deployment, "db.t"), Intent(assigns=frozenset({"x"})))


def test_more_writers_than_statement_ids_are_refused(store: Store, deployment: Site) -> None:
    filled(store, "db.t")
    with transaction(deployment) as txn:
        _, work = begin_changes(txn, named_table(deployment, "db.t"), Intent(deletes=True))
        with pytest.raises(Refused, match="repartition the rows"):
            write_changes(work, [], 4096, deployment.storage)


def test_a_file_that_is_not_what_its_writer_wrote_is_refused(store: Store, deployment: Site) -> None:
    table = filled(store, "db.t")
    before = rows_of(table)
    with pytest.raises(VerificationFailed, match="nothing was published"):
        _change_with_a_damaged_file(deployment)
    assert rows_of(table) == before


def _change_with_a_damaged_file(site: Site) -> None:
    with transaction(site) as txn:
        statements, work = begin_changes(txn, named_table(site, "db.t"), Intent(deletes=True))
        [rows] = found_rows(txn, site, "db.t")
        part = written(work, site, 0, changed(rows, some))
        with open(part.parts[0].outputs[0].path, "ab") as file:
            file.write(b"x")
        finish_changes(txn, statements, [part])


def test_locks_are_those_of_an_update_and_of_an_upsert_where_rows_are_added(store: Store, deployment: Site) -> None:
    """TABLES rule 2."""
    filled(store, "db.t")
    found = {}
    for name, intent in (("delete", Intent(deletes=True)), ("merge", EVERYTHING)):
        with transaction(deployment) as txn:
            begin_changes(txn, named_table(deployment, "db.t"), intent)
            held = deployment.metastore.locks.show()
            found[name] = max((one.type for one in held), key=lambda kind: kind.strength)
    assert found == {"delete": LockType.SHARED_WRITE, "merge": LockType.EXCL_WRITE}
