"""The tables and partitions that a metastore's rows make candidates, by their recorded names."""

from __future__ import annotations

from compactor.compaction.eligibility import order_entities
from compactor.compaction.queue_entry import Entity
from compactor.metastore.metastore import Metastore


def candidates_of(metastore: Metastore) -> list[Entity]:
    """Returns them in order."""
    written = metastore.components.writes(metastore.components.written_tables())
    found = [
        Entity(database=database, table=table, partition=partition)
        for (database, table), of_table in written.items()
        for partition in of_table
    ]
    return list(order_entities([*found, *metastore.components.aborts()]))
