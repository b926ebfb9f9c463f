"""On the embedded metastore; ``tests/contract/test_dropped_and_renamed.py`` has every row on every database."""

from __future__ import annotations

from sqlalchemy import select

from compactor.compaction.queue_entry import Entity
from compactor.metastore.catalog.dependents import DependentRows
from compactor.metastore.catalog.values import Table
from compactor.metastore.metastore import Metastore
from compactor.metastore.schema.tables import TXN_COMPONENTS


def test_a_partition_with_the_twice_escaped_name_of_another_is_spared(metastore: Metastore, partitioned: Table) -> None:
    one, two = (metastore.embedded_catalog.add_partition(partitioned, [value]) for value in ("a=b", "a%3Db"))
    assert (one.name, two.name) == ("d=a%3Db", "d=a%253Db")
    [txn] = metastore.transactions.open("u", "h")
    for part in (one, two):
        metastore.write_ids.add_component(txn, Entity(database="default", table="p", partition=part.name), "i", None)
    records = DependentRows(metastore.dialect)
    with metastore.database.write() as conn:
        records.rename_partition(conn, Entity(database="default", table="p", partition=one.name), "d=c")
        names = conn.execute(select(TXN_COMPONENTS.c.TC_PARTITION).order_by(TXN_COMPONENTS.c.TC_PARTITION))
        assert names.scalars().all() == [two.name, "d=c"]
        records.forget(conn, "default", "p", "d=c")
        assert conn.execute(select(TXN_COMPONENTS.c.TC_PARTITION)).scalars().all() == [two.name]
