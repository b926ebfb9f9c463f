"""Tables and partitions as the metastore stores them.

Locations stay as they are (``s3a://…``, ``/plain``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

NO_AUTO_COMPACTION = "no_auto_compaction"
NO_CLEANUP = "no_cleanup"
DDL_TIME = "transient_lastDdlTime"  #: the parameter with the second in which Hive last altered a table
EXTERNAL, VIEW = "EXTERNAL_TABLE", "VIRTUAL_VIEW"  #: values of TBL_TYPE; materialized views are tables
TABLE_TYPE, ICEBERG = "table_type", "iceberg"  #: the parameter of another table format, and its value in lower case

_MARKS = frozenset(":<>,`")  #: the separators in the text of a type


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column's name and its type as Hive writes it (``struct<a:int>``)."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One row of TBLS with its dependent rows. ``id`` changes when a table is dropped and re-created."""

    id: int
    database: str
    name: str
    location: str
    owner: str | None = None
    type: str = "MANAGED_TABLE"
    parameters: Mapping[str, str] = field(default_factory=_nothing)
    columns: tuple[Column, ...] = ()
    partition_keys: tuple[Column, ...] = ()
    buckets: int = -1  #: NUM_BUCKETS; 0 or less is unbucketed
    bucket_columns: tuple[str, ...] = ()
    sort_columns: tuple[str, ...] = ()
    input_format: str | None = None
    database_parameters: Mapping[str, str] = field(default_factory=_nothing)

    def __str__(self) -> str:
        return f"{self.database}.{self.name}"

    @property
    def is_partitioned(self) -> bool:
        return bool(self.partition_keys)

    @property
    def row_type(self) -> str:
        """Hive's type of the rows in files: without partition columns."""
        return f"struct<{','.join(f'{_quoted(column.name)}:{column.type}' for column in self.columns)}>"

    @property
    def is_transactional(self) -> bool:
        return is_true(parameter(self.parameters, "transactional"))

    @property
    def altered_at(self) -> int:
        """The epoch ms of the last ALTER TABLE, rounded down to a second; 0 if it is unknown."""
        seconds = self.parameters.get(DDL_TIME, "").strip()
        return int(seconds) * 1000 if seconds.isascii() and seconds.isdecimal() else 0

    @property
    def is_insert_only(self) -> bool:
        properties = parameter(self.parameters, "transactional_properties") or ""
        return self.is_transactional and properties.strip().lower() == "insert_only"

    @property
    def is_full_acid(self) -> bool:
        return self.is_transactional and not self.is_insert_only

    @property
    def is_external(self) -> bool:
        """True if others may change its files without a lock of the metastore."""
        return self.type == EXTERNAL or is_true(parameter(self.parameters, "EXTERNAL"))

    @property
    def is_iceberg(self) -> bool:
        """True if Hive's ``MetaStoreUtils.isIcebergTable`` says so."""
        return self.parameters.get(TABLE_TYPE, "").lower() == ICEBERG

    def refusal(self, partition: PartitionPlace | None = None) -> str | None:
        """Returns why workers and cleaners must not touch the table or partition, whatever the queue says.

        Returns None if they may.
        """
        if self.is_iceberg:
            why = "is an Iceberg table, which Hive's own compactor compacts; only Hive's ACID tables are compacted here"
        elif self.is_external:
            why = "is an external table, whose files others change without a lock; only managed tables are compacted"
        elif not self.is_transactional:
            why = "the table is not transactional; only ACID tables are compacted"
        elif self.is_full_acid and "orc" not in (self.input_format or "").lower():
            why = f"expected the ORC input format, found {self.input_format}; other full ACID tables are left alone"
        elif partition.sort_columns if partition is not None else self.sort_columns:
            why = "the table is sorted, and compaction would not keep its order"
        else:
            return None
        return f"{self}: {why}"

    @property
    def no_auto_compaction(self) -> bool:
        """True if the initiator leaves the table alone.

        The database's property decides if it is set, else the table's.
        """
        return self._property(NO_AUTO_COMPACTION)

    @property
    def no_cleanup(self) -> bool:
        """True if the cleaner leaves the table alone: the database's property if it is set, else the table's."""
        return self._property(NO_CLEANUP)

    def _property(self, key: str) -> bool:
        of_database = parameter(self.database_parameters, key)
        return is_true(parameter(self.parameters, key) if of_database is None else of_database)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlace:
    """The facts about a partition that an initiator needs. ``name`` is PART_NAME as stored."""

    id: int
    name: str
    location: str
    sort_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(PartitionPlace):
    """One row of PARTITIONS, whole. ``values`` are plain."""

    values: tuple[str, ...]
    parameters: Mapping[str, str] = field(default_factory=_nothing)

    @property
    def no_cleanup(self) -> bool:
        return is_true(parameter(self.parameters, NO_CLEANUP))


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageFormat:
    """The format in which the files of a table, or of one of its partitions, are read."""

    input_format: str | None
    serde_parameters: Mapping[str, str] = field(default_factory=_nothing)


def _quoted(name: str) -> str:
    """Returns a column's name as written in a type, between back-ticks if it has special characters."""
    return f"`{name.replace('`', '``')}`" if _MARKS.intersection(name) else name


def parameter(parameters: Mapping[str, str], key: str) -> str | None:
    """Returns the value of ``key`` in any case; the exact spelling wins if several are set."""
    if key in parameters:
        return parameters[key]
    return next((value for name, value in sorted(parameters.items()) if name.lower() == key.lower()), None)


def is_true(value: str | None) -> bool:
    """Returns what Java's ``Boolean.parseBoolean`` does."""
    return value is not None and value.strip().lower() == "true"
