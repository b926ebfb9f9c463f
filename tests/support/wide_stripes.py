"""ACID files of wide rows, whose stripes are as large as those of a table that was loaded in bulk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.io.source import LocalSource
from compactor.site.site import Site
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from demo.delta_writer import write_rows

ROW_TYPE = "struct<id:bigint,payload:binary>"
ROW_BYTES = 8_000  #: of a payload, which no codec makes smaller
_BATCH = 32  #: rows between two looks at a stripe's size
BUCKET = 1 << 29  #: the bucket property of file 0, statement 0


def write_delta(path: Path, write_id: int, stripes: int, stripe_bytes: int) -> Tail:
    """Writes insert events of one write ID in ``stripes`` stripes of about ``stripe_bytes``, the last one a little less."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = stripe_bytes // ROW_BYTES
    with po.ORCWriter(str(path), compression="zstd", stripe_size=stripe_bytes, batch_size=_BATCH) as writer:
        for stripe in range(stripes):
            writer.write(_events(write_id, stripe * rows, rows))
    with LocalSource(path) as source:
        return read_tail(source)


def _events(write_id: int, first: int, rows: int) -> pa.Table:
    random = np.random.default_rng([write_id, first])
    offsets = np.arange(0, (rows + 1) * ROW_BYTES, ROW_BYTES, dtype=np.int32)
    payload = pa.BinaryArray.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(random.bytes(rows * ROW_BYTES))]
    )
    numbers = np.arange(first, first + rows)
    row = pa.StructArray.from_arrays([pa.array(numbers), payload], names=["id", "payload"])
    return pa.table(
        {
            "operation": pa.array(np.zeros(rows, np.int32)),
            "originalTransaction": pa.array(np.full(rows, write_id)),
            "bucket": pa.array(np.full(rows, BUCKET, np.int32)),
            "rowId": pa.array(numbers),
            "currentTransaction": pa.array(np.full(rows, write_id)),
            "row": row,
        }
    )


def wide_table(site: Site, warehouse: Path, *, deltas: int, stripes: int, stripe_bytes: int, name: str = "t") -> Table:
    """Creates ``<name>(id bigint, payload binary)`` with one file in each of ``deltas`` inserts."""
    catalog, location = site.metastore.embedded_catalog, warehouse / name
    if "default" not in site.metastore.catalog.databases():
        catalog.create_database("default", str(warehouse))
    location.mkdir()
    columns = [Column(name="id", type="bigint"), Column(name="payload", type="binary")]
    parameters = {"transactional": "true", "transactional_properties": "default"}
    table = catalog.create_table(NewTable("default", name, str(location), columns, parameters=parameters))
    for number in range(deltas):
        with transaction(site) as txn:
            statement = txn.begin_statement(Entity(database="default", table=name), WriteOperation.INSERT)
            rows = pa.table({"id": pa.array([0], pa.int64()), "payload": pa.array([b"0"])})
            write_id = statement.write_id
            write_rows(statement.location, statement.table.row_type, rows, write_id=write_id, statement_id=0, number=0)
        (path,) = location.glob(f"delta_{number + 1:07d}_*/bucket_00000")
        path.unlink()
        write_delta(path, number + 1, stripes, stripe_bytes)
    return table
