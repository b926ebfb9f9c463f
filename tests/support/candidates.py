"""The tables and partitions that a metastore's rows make candidates, by their recorded names."""

from __future__ import annotations

from collections.abc import Iterable

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


def order_entities(entities: Iterable[Entity], after: Entity | None = None) -> tuple[Entity, ...]:
    """Returns all entities in one total order, starting after ``after`` and wrapping round.

    This is the order in which a pass must look at them.
    """
    ordered = sorted(set(entities), key=_sort_key)
    if after is None:
        return tuple(ordered)
    split = sum(_sort_key(entity) <= _sort_key(after) for entity in ordered)
    return (*ordered[split:], *ordered[:split])


def _sort_key(entity: Entity) -> tuple[str, str, str]:
    """Returns an entity's sort key; a table as a whole comes before its partitions."""
    return (entity.database, entity.table, entity.partition or "")
