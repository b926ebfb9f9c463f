"""Tables of ``tests/fixtures`` in a live metastore with transactions of its own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from sqlalchemy import insert

from compactor.base.ids import WriteId
from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column, Table
from compactor.metastore.schema.tables import NEXT_WRITE_ID, TXN_TO_WRITE_ID
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.site.site import Site
from demo.fixtures import FixtureStep, read_step

_VISIBILITY = re.compile(r"_v\d{7}$")


def table_name(step_name: str) -> str:
    """Returns the name of a step's table where tables of many steps are."""
    return step_name.translate(str.maketrans("-./", "___"))


def register(site: Site, path: Path, folder: Path, name: str) -> Table:
    """Registers a copy of a step's table. Its aborted write IDs belong to new transactions that abort, all others count as
    committed long ago; directories of compactions are named by compaction transactions that commit here, in the same order.
    """
    step = read_step(path)
    location = folder / name
    if step.directory is None:
        location.mkdir(parents=True)
    else:
        shutil.copytree(step.directory, location)
        _name_by_own_transactions(site, location)
    description = step.description
    table = site.metastore.embedded_catalog.create_table(
        NewTable(
            "default",
            name,
            f"file://{location}",
            [Column(name=column, type=kind) for column, kind in description.columns],
            partition_keys=[Column(name=column, type=kind) for column, kind in description.partition_keys],
            parameters=description.parameters,
            owner="somebody",
            buckets=description.buckets,
            bucket_columns=description.bucket_columns,
            input_format=description.input_format,
        )
    )
    for stored, values in step.partitions().items():
        site.metastore.embedded_catalog.add_partition(table, values, name=stored)
    _write_ids(site, step, name)
    return table


def _name_by_own_transactions(site: Site, location: Path) -> None:
    """A number from elsewhere would be that of another's transaction (PROTOCOL 11.3)."""
    named = [path for path in location.rglob("*_v*") if path.is_dir() and _VISIBILITY.search(path.name)]
    own: dict[str, str] = {}
    for suffix in sorted({path.name[-len("_v0000000") :] for path in named}):
        [txn] = site.metastore.transactions.open("somebody", "a-host", type=TxnType.COMPACTION)
        site.metastore.transactions.commit(txn)
        own[suffix] = f"_v{txn:07d}"
    for path in named:
        suffix = path.name[-len("_v0000000") :]
        path.rename(path.with_name(path.name.removesuffix(suffix) + own[suffix]))


def _write_ids(site: Site, step: FixtureStep, name: str) -> None:
    """Writes NEXT_WRITE_ID and TXN_TO_WRITE_ID, from which the watermark and the list of aborted write IDs are read."""
    aborted = {row["TXN_ID"] for row in step.dump.rows("TXNS") if row["TXN_STATE"] == "a"}
    of_aborted = {
        int(row["T2W_WRITEID"] or 0)
        for row in step.dump.rows("TXN_TO_WRITE_ID")
        if row["T2W_TABLE"] == step.table and row["T2W_TXNID"] in aborted
    }
    own = [row for row in step.dump.rows("NEXT_WRITE_ID") if row["NWI_TABLE"] == step.table]
    following = max([int(row["NWI_NEXT"] or 1) for row in own], default=1)
    table = {"DATABASE": "default", "TABLE": name}
    with site.metastore.database.write() as conn:
        values = {f"NWI_{key}": value for key, value in table.items()}
        conn.execute(insert(NEXT_WRITE_ID).values(**values, NWI_NEXT=following))
    entity = Entity(database="default", table=name, partition=None)
    for write_id in sorted(of_aborted | ({following - 1} if of_aborted else set())):
        [txn] = site.metastore.transactions.open("somebody", "a-host")
        with site.metastore.database.write() as conn:
            values = {f"T2W_{key}": value for key, value in table.items()}
            conn.execute(insert(TXN_TO_WRITE_ID).values(**values, T2W_TXNID=txn, T2W_WRITEID=write_id))
        if write_id in of_aborted:
            site.metastore.write_ids.add_component(txn, entity, "i", WriteId(write_id))
            site.metastore.transactions.abort(txn, "as in the fixture")
        else:
            site.metastore.transactions.commit(txn)
