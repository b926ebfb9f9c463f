"""The condition that a row is about one table or partition."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Table

from compactor.compaction.entry import Entity


def entity_is(table: Table, prefix: str, entity: Entity, *partitions: str | None) -> ColumnElement[bool]:
    """Returns the condition for rows of ``entity``, or of its table and one of ``partitions`` if any are given."""
    columns = table.c
    names = partitions or (entity.partition,)
    partition = columns[f"{prefix}_PARTITION"]
    here = partition.is_(None) if names == (None,) else partition.in_(names)
    return (columns[f"{prefix}_DATABASE"] == entity.database) & (columns[f"{prefix}_TABLE"] == entity.table) & here
