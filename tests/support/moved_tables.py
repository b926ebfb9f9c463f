"""Tables that were written on this machine's disk and then moved into a store, and their rows there."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import func, update

from compactor.acid.directory import acid_directory
from compactor.acid.write_ids import ValidTxnList
from compactor.base.ids import NOTHING_OPEN, TxnId
from compactor.metastore.catalog.values import Table
from compactor.metastore.schema.tables import SDS
from compactor.site.site import Site
from compactor.storage.stores import Stores
from demo.snapshot_reader import read_snapshot
from tests.support.tables import entity_of


def moved(site: Site, table: Table, stores: Stores, location: str) -> Site:
    """Moves the table to ``location``, an empty directory there; returns the site that reaches it."""
    here = Path(table.location)
    top = stores.resolve(location)
    files = [file for file in here.rglob("*") if file.is_file()]
    for folder in sorted({file.parent.relative_to(here).as_posix() for file in files}):
        stores.make_directories(f"{top}/{folder}", like=top)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda file: stores.upload(str(file), f"{top}/{file.relative_to(here)}"), files))
    with site.metastore.database.write() as conn:
        new = func.replace(SDS.c.LOCATION, table.location, location)
        conn.execute(update(SDS).where(SDS.c.LOCATION.startswith(table.location)).values(LOCATION=new))
    return replace(site, storage=stores)


def read_rows(site: Site, table: Table, *, honours_visibility: bool = True) -> list[tuple[Any, ...]]:
    """Returns every row with its ROW__ID, as Hive 4 or as Trino shows it."""
    target = site.target(entity_of(table))
    txns = site.metastore.transactions.snapshot()
    write_ids = site.write_ids(table, txns)
    seen = txns if honours_visibility else ValidTxnList(high_watermark=TxnId(NOTHING_OPEN))
    directory = acid_directory(site.storage.listing(target.location), write_ids, seen)
    batches = read_snapshot(target.location, directory, write_ids, target.row_type, site.storage)
    return sorted(tuple(row.values()) for batch in batches for row in batch.to_pylist())
