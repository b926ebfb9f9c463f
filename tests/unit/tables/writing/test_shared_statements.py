"""Rows that several processes write as one statement: each once, in one commit, whatever became of other attempts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from compactor.acid import bucket
from compactor.base.errors import NotFound, NotSupported, Refused, VerificationFailed
from compactor.locking.lock_types import LockType
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables.reading.scan_planning import ScanRequest, plan_scan
from compactor.tables.reading.scan_task_reader import read_task
from compactor.tables.schema import IN_PARTS, ROW_ID
from compactor.tables.store import named_table
from compactor.tables.table import Table
from compactor.tables.transactions.transaction import Transaction, WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing import shared_statements
from compactor.tables.writing.part_files import ROWS, write_changes, write_part
from compactor.tables.writing.row_change import FILE, FILE_TYPE, KIND, Changed, RowChangeKind
from compactor.tables.writing.shared_statements import Intent, begin_changes, begin_rows, finish_changes, finish_rows
from compactor.tables.writing.writer_messages import ChangedPart, SharedChange, SharedStatement, WrittenPart

APPEND, OVERWRITE = WriteOperation.INSERT, WriteOperation.UPDATE
Decide = Callable[[int], tuple[RowChangeKind, int]]
EVERYTHING = Intent(deletes=True, assigns=frozenset({"v"}), inserts=True)


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    found = Store(deployment)
    found.create_database("db", str(warehouse))
    return found


def batch(*values: int, **more: list[int]) -> pa.RecordBatch:
    return pa.record_batch({"i": list(values), **more})


def written(work: SharedStatement, site: Site, writer: int, *batches: pa.RecordBatch) -> tuple[WrittenPart, ...]:
    """Writes in what could be another process: all that it is given and returns has travelled."""
    travelled: SharedStatement = pickle.loads(pickle.dumps(work))
    return pickle.loads(pickle.dumps(write_part(travelled, batches, writer, site.storage)))  # type: ignore[no-any-return]


def write(site: Site, name: str, operation: WriteOperation, tasks: dict[int, pa.RecordBatch]) -> int:
    with transaction(site) as txn:
        statement, work = begin_rows(txn, named_table(site, name), operation, None)
        parts = [part for writer, rows in tasks.items() for part in written(work, site, writer, rows)]
        return finish_rows(txn, statement, parts)


def rows_of(table: Table) -> list[int]:
    return sorted(row["i"] for row in table.scan().to_arrow().to_pylist())


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".compactor_w*")]


def test_each_writer_has_a_statement_of_its_own(store: Store, deployment: Site, warehouse: Path) -> None:
    table = store.create_table("db.t", {"i": "bigint"})
    assert write(deployment, "db.t", APPEND, {2: batch(5), 0: batch(1, 2), 1: batch()}) == 3
    assert sorted(path.name for path in (warehouse / "t").iterdir()) == [
        "delta_0000001_0000001_0000",
        "delta_0000001_0000001_0002",
    ]
    found = table.scan(row_ids=True).to_arrow().to_pylist()
    assert [(row["row__id"]["bucketid"], row["row__id"]["rowid"]) for row in found] == [
        (bucket.encode(0, 0), 0),
        (bucket.encode(0, 0), 1),
        (bucket.encode(0, 2), 2 * ROWS),
    ]
    table.delete("i = 5")
    assert rows_of(table) == [1, 2]


def test_several_writers_replace_no_half_of_a_value(store: Store, deployment: Site) -> None:
    """PROTOCOL 14.31."""
    store.create_table("db.p", {"i": "bigint", "k": "int"}, partitioned_by=["k"]).append(pa.table({"i": [1], "k": [7]}))
    table = named_table(deployment, "db.p")
    deployment.metastore.embedded_catalog.add_partition(table, ["07"])
    with pytest.raises(Refused, match="partition 'k=07' has the same values"):
        write(deployment, "db.p", OVERWRITE, {0: batch(2, k=[7])})


def test_an_attempt_that_was_not_accepted_is_nowhere(store: Store, deployment: Site, warehouse: Path) -> None:
    table = store.create_table("db.t", {"i": "bigint"})
    with transaction(deployment) as txn:
        statement, work = begin_rows(txn, named_table(deployment, "db.t"), APPEND, None)
        written(work, deployment, 0, batch(1))
        finish_rows(txn, statement, written(work, deployment, 0, batch(1)))
    assert rows_of(table) == [1]
    assert hidden(warehouse) == []


def test_partitions_show_in_the_rows_and_are_added(store: Store, deployment: Site, warehouse: Path) -> None:
    table = store.create_table("db.t", {"i": "bigint", "p": "int"}, partitioned_by=["p"])
    table.append(pa.table({"i": [7], "p": [1]}))
    write(deployment, "db.t", APPEND, {0: batch(1, 2, p=[1, 2]), 1: batch(3, p=[2])})
    assert table.partitions == ("p=1", "p=2")
    assert rows_of(table) == [1, 2, 3, 7]
    assert table.scan("p = 2").count() == 2
    assert hidden(warehouse) == []


def test_an_overwrite_has_one_file_of_each_number_with_the_rows_of_all_writers(
    store: Store, deployment: Site, warehouse: Path
) -> None:
    table = store.create_table("db.t", {"i": "bigint"})
    table.append(pa.table({"i": [99]}))
    assert write(deployment, "db.t", OVERWRITE, {1: batch(3, 4), 0: batch(1, 2), 3: batch(5)}) == 5
    assert [path.name for path in (warehouse / "t" / "base_0000002").glob("bucket*")] == ["bucket_00000"]
    assert table.scan().to_arrow().column("i").to_pylist() == [1, 2, 3, 4, 5]
    table.update({"i": "0"}, "i = 3")
    assert rows_of(table) == [0, 1, 2, 4, 5]
    table.compact(wait=True, here=True)
    assert rows_of(table) == [0, 1, 2, 4, 5]


def test_an_overwrite_without_rows_leaves_none(store: Store, deployment: Site) -> None:
    table = store.create_table("db.t", {"i": "bigint"})
    table.append(pa.table({"i": [99]}))
    assert write(deployment, "db.t", OVERWRITE, {0: batch()}) == 0
    assert rows_of(table) == []


def test_an_overwrite_of_partitions_leaves_the_others(store: Store, deployment: Site) -> None:
    table = store.create_table("db.t", {"i": "bigint", "p": "int"}, partitioned_by=["p"])
    table.append(pa.table({"i": [7, 8], "p": [1, 2]}))
    write(deployment, "db.t", OVERWRITE, {0: batch(1, p=[2]), 1: batch(2, p=[2])})
    assert rows_of(table) == [1, 2, 7]


def test_rows_of_a_bucketed_table_are_in_their_buckets(store: Store, deployment: Site, warehouse: Path) -> None:
    table = store.create_table("db.t", {"i": "bigint"}, clustered_by=(["i"], 3))
    rows = list(range(30))
    for operation in (APPEND, OVERWRITE):
        write(deployment, "db.t", operation, {0: batch(*rows[:20]), 1: batch(*rows[20:])})
        assert rows_of(table) == rows
    table.append(pa.table({"i": rows}))
    found = table.scan(row_ids=True).to_arrow().to_pylist()
    codes = {row["i"]: row["row__id"]["bucketid"] >> 16 & 4095 for row in found if row["row__id"]["writeid"] == 3}
    assert all(row["row__id"]["bucketid"] >> 16 & 4095 == codes[row["i"]] for row in found)
    assert len(set(codes.values())) == 3
    assert len(list((warehouse / "t" / "base_0000002").glob("bucket*"))) == 3


def test_a_file_that_is_not_what_its_writer_wrote_is_refused(store: Store, deployment: Site, warehouse: Path) -> None:
    for operation in (APPEND, OVERWRITE):
        name = f"db.{operation.name.lower()}"
        table = store.create_table(name, {"i": "bigint"})
        with pytest.raises(VerificationFailed, match="nothing was published"):
            _write_with_a_damaged_file(deployment, name, operation)
        assert rows_of(table) == []
    assert hidden(warehouse) == []


def test_more_writers_than_statement_ids_are_refused(store: Store, deployment: Site) -> None:
    table = store.create_table("db.t", {"i": "bigint"})
    with pytest.raises(Refused, match="repartition the rows"):
        write(deployment, "db.t", APPEND, {bucket.MAX_STATEMENT + 1: batch(1)})
    write(deployment, "db.t", APPEND, {bucket.MAX_STATEMENT: batch(1)})
    assert rows_of(table) == [1]


def _write_with_a_damaged_file(site: Site, name: str, operation: WriteOperation) -> None:
    with transaction(site) as txn:
        statement, work = begin_rows(txn, named_table(site, name), operation, None)
        parts = [part for writer in (0, 1) for part in written(work, site, writer, batch(writer))]
        with open(parts[1].outputs[0].path, "ab") as file:
            file.write(b"x")
        finish_rows(txn, statement, parts)


def scan_rows(txn: Transaction, site: Site, name: str) -> list[pa.Table]:
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
        if kind is not RowChangeKind.NOTHING:
            made.append({KIND: int(kind), **row, "v": value})
    schema = pa.schema([pa.field(KIND, pa.int32()), *rows.schema])
    return [pa.RecordBatch.from_pylist(made, schema)] if made else []


def added(like: pa.Table, *rows: dict[str, Any]) -> pa.RecordBatch:
    schema = pa.schema([pa.field(KIND, pa.int32()), *(field.with_nullable(True) for field in like.schema)])
    return pa.RecordBatch.from_pylist([{KIND: int(RowChangeKind.INSERT), **row} for row in rows], schema)


def changed_parts(work: SharedChange, site: Site, writer: int, batches: list[pa.RecordBatch]) -> ChangedPart:
    """Writes in what could be another process: all that it is given and returns has travelled."""
    travelled: SharedChange = pickle.loads(pickle.dumps(work))
    return pickle.loads(pickle.dumps(write_changes(travelled, batches, writer, site.storage)))  # type: ignore[no-any-return]  # what was pickled


def change(site: Site, name: str, intent: Intent, decide: Decide, *new: dict[str, Any]) -> Changed:
    """Changes rows as one writer for each file number does it, and one more for those that are added."""
    with transaction(site) as txn:
        statements, work = begin_changes(txn, named_table(site, name), intent)
        tables = scan_rows(txn, site, name)
        parts = [changed_parts(work, site, writer, changed(rows, decide)) for writer, rows in enumerate(tables)]
        if new:
            parts.append(changed_parts(work, site, len(tables), [added(tables[0], *new)]))
        finish_changes(txn, statements, parts)
    return Changed.total(part.counts for part in parts)


def some(number: int) -> tuple[RowChangeKind, int]:
    """Deletes every third row, updates the next one."""
    return [(RowChangeKind.DELETE, 0), (RowChangeKind.UPDATE, -number), (RowChangeKind.NOTHING, 0)][number % 3]


def changed_rows_of(table: Table) -> list[tuple[Any, ...]]:
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
    assert changed_rows_of(ours) == changed_rows_of(twin)
    assert counts == Changed(deleted=6, updated=6, inserted=1)
    assert ours.partitions == twin.partitions
    for partition in ours.partitions[:2] or (None,):
        ours.compact(partition=partition, wait=True, here=True)
    assert changed_rows_of(ours) == changed_rows_of(twin)


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


def test_an_attempt_of_a_change_that_was_not_accepted_is_nowhere(
    store: Store, deployment: Site, warehouse: Path
) -> None:
    """TABLES rule 14: task commits are idempotent by attempt."""
    table = filled(store, "db.t", partitioned_by=["p"])
    with transaction(deployment) as txn:
        statements, work = begin_changes(txn, named_table(deployment, "db.t"), EVERYTHING)
        tables = scan_rows(txn, deployment, "db.t")
        for writer, rows in enumerate(tables):
            changed_parts(work, deployment, writer, changed(rows, lambda _: (RowChangeKind.DELETE, 0)))
        parts = [changed_parts(work, deployment, at, changed(rows, some)) for at, rows in enumerate(tables)]
        finish_changes(txn, statements, parts)
    assert len(changed_rows_of(table)) == 12
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
    before = [row[0] for row in changed_rows_of(table)]
    change(
        deployment,
        "db.t",
        Intent(deletes=True),
        lambda i: (RowChangeKind.DELETE, 0) if i < 4 else (RowChangeKind.NOTHING, 0),
    )
    assert [row[0] for row in changed_rows_of(table)] == [i for i in before if i >= 4]


def test_nothing_that_is_found_changes_nothing(store: Store, deployment: Site, warehouse: Path) -> None:
    table = filled(store, "db.t", partitioned_by=["p"])
    before = changed_rows_of(table)
    assert change(deployment, "db.t", EVERYTHING, lambda _: (RowChangeKind.NOTHING, 0)) == Changed()
    assert changed_rows_of(table) == before
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


def test_more_writers_of_a_change_than_statement_ids_are_refused(store: Store, deployment: Site) -> None:
    filled(store, "db.t")
    with transaction(deployment) as txn:
        _, work = begin_changes(txn, named_table(deployment, "db.t"), Intent(deletes=True))
        with pytest.raises(Refused, match="repartition the rows"):
            write_changes(work, [], 4096, deployment.storage)


def test_a_file_of_a_change_that_is_not_what_its_writer_wrote_is_refused(store: Store, deployment: Site) -> None:
    table = filled(store, "db.t")
    before = changed_rows_of(table)
    with pytest.raises(VerificationFailed, match="nothing was published"):
        _change_with_a_damaged_file(deployment)
    assert changed_rows_of(table) == before


def _change_with_a_damaged_file(site: Site) -> None:
    with transaction(site) as txn:
        statements, work = begin_changes(txn, named_table(site, "db.t"), Intent(deletes=True))
        [rows] = scan_rows(txn, site, "db.t")
        part = changed_parts(work, site, 0, changed(rows, some))
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


@pytest.mark.parametrize("day", [date(1000, 2, 28), date(1582, 10, 10)])
def test_writers_for_hive_3_1_store_gregorian_days(
    store: Store, deployment: Site, warehouse: Path, monkeypatch: pytest.MonkeyPatch, day: date
) -> None:
    """PROTOCOL 2.2: and the files name no calendar, as those of Hive."""
    store.create_table("db.t", {"d": "date"})
    monkeypatch.setattr(shared_statements, "is_hive_4", lambda site: False)
    assert write(deployment, "db.t", APPEND, {0: pa.record_batch({"d": [day]})}) == 1
    [file] = (warehouse / "t").rglob("bucket_00000")
    assert orc.ORCFile(file).read()["row"].combine_chunks().field("d").to_pylist() == [day]
    with closing(LocalSource(str(file))) as source:
        assert read_tail(source).calendar == 0
