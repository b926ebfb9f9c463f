"""Rows for several tables come mixed, and each is staged for its own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from compactor.site.site import Site
from compactor.tables.store import Store
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from compactor.tables.writing.part_files import TARGET, values_column, write_parts
from compactor.tables.writing.shared_statements import begin_rows, finish_rows


def batch(targets: list[int], first: list[int | None], second: list[str | None]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            TARGET: pa.array(targets, pa.int32()),
            values_column(0): pa.array(
                [None if a is None else {"a": a} for a in first], pa.struct([("a", pa.int32())])
            ),
            values_column(1): pa.array(
                [None if b is None else {"b": b} for b in second], pa.struct([("b", pa.string())])
            ),
        }
    )


def test_each_row_is_written_into_its_table(deployment: Site, warehouse: Path) -> None:
    store = Store(deployment)
    store.create_database("d", str(warehouse))
    for name, columns in (("t", {"a": "int"}), ("u", {"b": "string"}), ("v", {"b": "string"})):
        store.create_table(f"d.{name}", columns)
    tables = [deployment.metastore.catalog.table("d", name) for name in ("t", "u")]
    rows = [batch([0, 1, 0], [1, None, 2], [None, "x", None]), batch([1], [None], ["y"]), batch([0], [3], [None])]
    with transaction(deployment) as txn:
        statements = [begin_rows(txn, table, WriteOperation.INSERT, None) for table in tables]
        parts = write_parts([work for _, work in statements], rows, 0, deployment.storage)
        assert [finish_rows(txn, statement, own) for (statement, _), own in zip(statements, parts, strict=True)] == [
            3,
            2,
        ]
    assert store.load_table("d.t").scan().to_arrow().column("a").to_pylist() == [1, 2, 3]
    assert store.load_table("d.u").scan().to_arrow().column("b").to_pylist() == ["x", "y"]
    empty = write_parts([work for _, work in statements], [], 1, deployment.storage)
    assert empty == ((), ())
