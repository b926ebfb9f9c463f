"""Rows that several processes write as one statement: each once, in one commit, whatever became of other attempts."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid import bucket
from compactor.base.errors import Refused, VerificationFailed
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables.store import named_table
from compactor.tables.table import Table
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing.part_files import ROWS, write_part
from compactor.tables.writing.shared import begin, finish
from compactor.tables.writing.shared_statement import SharedStatement
from compactor.tables.writing.written_part import WrittenPart

APPEND, OVERWRITE = WriteOperation.INSERT, WriteOperation.UPDATE


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
        statement, work = begin(txn, named_table(site, name), operation, None)
        parts = [part for writer, rows in tasks.items() for part in written(work, site, writer, rows)]
        return finish(txn, statement, parts)


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
        statement, work = begin(txn, named_table(deployment, "db.t"), APPEND, None)
        written(work, deployment, 0, batch(1))
        finish(txn, statement, written(work, deployment, 0, batch(1)))
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
        statement, work = begin(txn, named_table(site, name), operation, None)
        parts = [part for writer in (0, 1) for part in written(work, site, writer, batch(writer))]
        with open(parts[1].outputs[0].path, "ab") as file:
            file.write(b"x")
        finish(txn, statement, parts)
