"""Rows of the transaction tables that name a database, table or partition, to drop and rename with it.

This follows Hive's ``AcidEventListener`` (``cleanupRecords``, ``OnRenameFunction``). Locks stay with their transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sqlalchemy import ColumnElement, Connection, Table, delete, update

from compactor.acid import partition_names
from compactor.compaction.queue_entry import Entity
from compactor.metastore.schema import tables as t
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.transactions import components

#: Tables whose rows are dropped with the partition that they name, and the prefix of their columns.
_OF_PARTITIONS = (
    (t.TXN_COMPONENTS, "TC"),
    (t.COMPLETED_TXN_COMPONENTS, "CTC"),
    (t.COMPACTION_QUEUE, "CQ"),
    (t.COMPLETED_COMPACTIONS, "CC"),
    (t.COMPACTION_METRICS_CACHE, "CMC"),
)
_OF_TABLES = ((t.TXN_TO_WRITE_ID, "T2W"), (t.NEXT_WRITE_ID, "NWI"))
_ONLY_RENAMED = ((t.WRITE_SET, "WS"), (t.HIVE_LOCKS, "HL"))


class DependentRows:
    """Deletes and renames rows of every transaction table by the names in them."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def forget(self, conn: Connection, database: str, table: str, partition: str | None = None) -> None:
        """Deletes the rows of a dropped table, its partitions and write IDs, or of a dropped partition."""
        names = components.recorded_forms(conn, Entity(database=database, table=table, partition=partition))
        tables = _OF_PARTITIONS if partition is not None else (*_OF_PARTITIONS, *_OF_TABLES)
        for records, prefix in self._existing(tables):
            here = _are_of_table(records, prefix, database, table)
            if partition is not None:
                here = (*here, records.c[f"{prefix}_PARTITION"].in_(names))
            conn.execute(delete(records).where(*here))

    def forget_database(self, conn: Connection, database: str) -> None:
        """Deletes the rows of a dropped database."""
        for records, prefix in self._existing((*_OF_PARTITIONS, *_OF_TABLES)):
            conn.execute(delete(records).where(records.c[f"{prefix}_DATABASE"] == database))

    def rename_table(self, conn: Connection, database: str, table: str, to_database: str, to_table: str) -> None:
        """Renames the table in all rows, those of its partitions included."""
        for records, prefix in self._existing((*_OF_PARTITIONS, *_OF_TABLES, *_ONLY_RENAMED)):
            names = {_column(prefix, "DATABASE"): to_database, f"{prefix}_TABLE": to_table}
            conn.execute(update(records).where(*_are_of_table(records, prefix, database, table)).values(names))

    def rename_partition(self, conn: Connection, entity: Entity, to: str) -> None:
        """Renames a partition to the PART_NAME ``to``, and rows of its other forms to those of ``to``."""
        assert entity.partition is not None
        forms = (partition_names.in_lower_case, partition_names.escape_again, str)
        new = {form(entity.partition): form(to) for form in forms}
        old = [name for name in components.recorded_forms(conn, entity) if name is not None]
        for records, prefix in self._existing((*_OF_PARTITIONS, *_ONLY_RENAMED)):
            column = records.c[f"{prefix}_PARTITION"]
            here = _are_of_table(records, prefix, entity.database, entity.table)
            for name in old:
                conn.execute(update(records).where(*here, column == name).values({column.name: new[name]}))

    def _existing(self, tables: Iterable[tuple[Table, str]]) -> Iterator[tuple[Table, str]]:
        return ((records, prefix) for records, prefix in tables if self._dialect.has(records))


def _are_of_table(records: Table, prefix: str, database: str, table: str) -> tuple[ColumnElement[bool], ...]:
    columns = records.c
    return (columns[_column(prefix, "DATABASE")] == database, columns[f"{prefix}_TABLE"] == table)


def _column(prefix: str, name: str) -> str:
    return "HL_DB" if (prefix, name) == ("HL", "DATABASE") else f"{prefix}_{name}"
