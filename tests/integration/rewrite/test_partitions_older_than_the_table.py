"""A table's columns change in the metastore and its partitions' columns do not, as after ALTER TABLE without CASCADE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlalchemy import delete, insert, select, update

from compactor.acid.directory import acid_directory
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import CDS, COLUMNS_V2, SDS, TBLS
from compactor.orc.format.hive_types import schema_text
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.site import Site
from compactor.tables.transactions.transaction import WriteOperation
from compactor.tables.transactions.transaction_block import transaction
from demo.delta_writer import write_rows
from demo.snapshot_reader import read_snapshot
from tests.support.mixtures import tail_of

PARTITION = Entity(database="default", table="t", partition="p=x")


def _table(site: Site, warehouse: Path) -> Table:
    site.metastore.embedded_catalog.create_database("default", str(warehouse))
    table = site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            "t",
            str(warehouse / "t"),
            [Column(name="a", type="int"), Column(name="b", type="varchar(3)")],
            partition_keys=[Column(name="p", type="string")],
            parameters={"transactional": "true", "transactional_properties": "default"},
        )
    )
    part = site.metastore.embedded_catalog.add_partition(table, ["x"])
    Path(site.storage.resolve(part.location)).mkdir(parents=True)
    return table


def _alter(site: Site, table: Table, columns: dict[str, str]) -> None:
    """Gives the table new columns under a new CD_ID; those of its partitions stay."""
    with site.metastore.database.write() as conn:
        of_table = select(SDS.c.SD_ID, SDS.c.CD_ID).join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID)
        found = conn.execute(of_table.where(table.id == TBLS.c.TBL_ID)).one()
        new = found.CD_ID + 1000
        conn.execute(insert(CDS).values(CD_ID=new))
        conn.execute(delete(COLUMNS_V2).where(new == COLUMNS_V2.c.CD_ID))
        conn.execute(
            insert(COLUMNS_V2),
            [
                {"CD_ID": new, "COMMENT": None, "COLUMN_NAME": name, "TYPE_NAME": kind, "INTEGER_IDX": place}
                for place, (name, kind) in enumerate(columns.items())
            ],
        )
        conn.execute(update(SDS).where(SDS.c.SD_ID == found.SD_ID).values(CD_ID=new))


def _insert(site: Site, rows: pa.Table) -> None:
    with transaction(site) as txn:
        statement = txn.begin_statement(PARTITION, WriteOperation.INSERT)
        write_rows(
            statement.location,
            statement.table.row_type,
            rows,
            write_id=statement.write_id,
            statement_id=statement.statement_id,
        )


def _rows(site: Site, table: Table) -> list[tuple[Any, ...]]:
    target = site.target(PARTITION)
    txns = site.metastore.transactions.snapshot()
    write_ids = site.write_ids(table, txns)
    directory = acid_directory(site.storage.listing(target.location), write_ids, txns)
    batches = read_snapshot(target.location, directory, write_ids, target.row_type)
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())


def _compact(site: Site, kind: str) -> str:
    """Compacts and returns the type of the rows in the output."""
    request_compaction(site, table="default.t", partition="p=x", type=kind)
    (outcome,) = run_entries(site, list_claimable_ids(site), InProcessRunner()).outcomes
    (name,) = outcome.output
    (file,) = (Path(site.target(PARTITION).location) / name).glob("bucket_*")
    return schema_text(tail_of(file).types.row)


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_a_partition_older_than_its_table_reads_the_same_after_a_compaction(
    kind: str, deployment: Site, warehouse: Path
) -> None:
    """DESIGN 8: a reader sees the same rows before and after any compaction."""
    table = _table(deployment, warehouse)
    for value in (1, 2):
        _insert(deployment, pa.table({"a": pa.array([value], pa.int32()), "b": ["abc"]}))
    _alter(deployment, table, {"a": "bigint", "renamed": "varchar(20)", "c": "date"})
    shown = _rows(deployment, table)
    assert [row[3:] for row in shown] == [(1, "abc", None), (2, "abc", None)]
    assert _compact(deployment, kind) == "struct<a:int,renamed:varchar(3)>"
    assert _rows(deployment, table) == shown
    _insert(deployment, pa.table({"a": [1 << 40], "b": ["longer than three"], "c": pa.array([0], pa.date32())}))
    shown = _rows(deployment, table)
    assert len(shown) == 3
    assert _compact(deployment, kind) == "struct<a:bigint,renamed:varchar(20),c:date>"
    assert _rows(deployment, table) == shown
