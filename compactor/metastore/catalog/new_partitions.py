"""New partitions in the catalog, with the rows that Hive's metastore gives them.

A partition has a storage descriptor and a serde of its own, copied from the table's, and shares the table's columns
(``ObjectStore.convertToMPart``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, insert, literal, select
from sqlalchemy import Table as SqlTable
from sqlalchemy.exc import IntegrityError

from compactor.acid.partition_names import part_values
from compactor.base.errors import NotFound, Refused
from compactor.base.ids import WriteId
from compactor.database.clock import now_ms
from compactor.database.engine import Database, retried
from compactor.metastore.catalog.values import DDL_TIME, Table
from compactor.metastore.schema.counter_rows import draw_catalog_ids
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    BUCKETING_COLS,
    PARTITION_KEY_VALS,
    PARTITION_PARAMS,
    PARTITIONS,
    SDS,
    SERDE_PARAMS,
    SERDES,
    SORT_COLS,
    TBLS,
)
from compactor.metastore.transactions.commit_rows import InTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPartition:
    """A partition to add; the metastore stores ``location`` as it is."""

    table: Table
    name: str  #: PART_NAME
    location: str
    write_id: WriteId = WriteId(0)  #: of the transaction that adds it with its rows

    @property
    def values(self) -> tuple[str, ...]:
        return part_values(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionIds:
    """The ids of a partition's rows."""

    partition: int
    storage: int
    serde: int


class NewPartitions:
    """Adds partitions to one metastore."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database, self._dialect = database, dialect

    def adding(self, partitions: Sequence[NewPartition]) -> InTransaction:
        """Draws the ids of ``partitions`` now.

        Returns a function that adds them within a database transaction.

        Nobody has to wait for the counters of ids until that commits. A partition that somebody else has added in the
        same place meanwhile stays as it is. The function raises Refused if it was added in another place, and NotFound
        if the table is gone.
        """
        ids = self._draw_ids(len(partitions))

        def add(conn: Connection) -> None:
            for new, of_new in sorted(zip(partitions, ids, strict=True), key=lambda pair: pair[0].name):
                self._add_or_find(conn, new, of_new)

        return add

    @retried
    def _draw_ids(self, count: int) -> list[PartitionIds]:
        with self._database.write() as conn:
            return draw_ids(conn, self._dialect, count)

    def _add_or_find(self, conn: Connection, new: NewPartition, ids: PartitionIds) -> None:
        if _is_there(conn, new):
            return
        try:
            with conn.begin_nested():
                insert_partition(conn, self._dialect, new, ids)
        except Refused:
            if not _is_there(conn, new):  # else somebody else has added it and just committed
                raise


def draw_ids(conn: Connection, dialect: Dialect, count: int) -> list[PartitionIds]:
    """Draws the ids of this many partitions."""
    firsts = [
        draw_catalog_ids(conn, dialect, model, count) for model in ("MPartition", "MStorageDescriptor", "MSerDeInfo")
    ]
    return [PartitionIds(partition=firsts[0] + at, storage=firsts[1] + at, serde=firsts[2] + at) for at in range(count)]


def insert_partition(conn: Connection, dialect: Dialect, new: NewPartition, ids: PartitionIds) -> None:
    """Inserts all rows of a partition.

    Raises:
        NotFound: the table is gone.
        Refused: it has a partition of this name, or of one that is equal to it for the database.
    """
    of_table = select(SDS.c.SD_ID, SDS.c.SERDE_ID).join(TBLS, TBLS.c.SD_ID == SDS.c.SD_ID)
    like = conn.execute(of_table.where(TBLS.c.TBL_ID == new.table.id)).first()
    if like is None:
        raise NotFound(f"table {new.table} was dropped meanwhile; partition {new.name} was not added")
    now_s = now_ms(conn) // 1000
    _copy(conn, SERDES, select(SERDES).where(SERDES.c.SERDE_ID == like.SERDE_ID), SERDE_ID=ids.serde)
    _copy(conn, SERDE_PARAMS, select(SERDE_PARAMS).where(SERDE_PARAMS.c.SERDE_ID == like.SERDE_ID), SERDE_ID=ids.serde)
    own = {"SD_ID": ids.storage, "SERDE_ID": ids.serde, "LOCATION": new.location}
    _copy(conn, SDS, select(SDS).where(SDS.c.SD_ID == like.SD_ID), **own)
    for of_storage in (BUCKETING_COLS, SORT_COLS):
        _copy(conn, of_storage, select(of_storage).where(of_storage.c.SD_ID == like.SD_ID), SD_ID=ids.storage)
    row = {
        "PART_ID": ids.partition,
        "CREATE_TIME": now_s,
        "LAST_ACCESS_TIME": 0,
        "PART_NAME": new.name,
        "SD_ID": ids.storage,
        "TBL_ID": new.table.id,
        "WRITE_ID": new.write_id,
    }
    try:
        conn.execute(insert(PARTITIONS).values(**dialect.row(PARTITIONS, row)))
    except IntegrityError as error:
        raise Refused(
            f"partition {new.name!r} of {new.table} cannot be added: the table has a partition of this name, or of one that "
            "its database takes for equal, as MySQL does where only blanks at the end differ; use another value"
        ) from error
    texts = [
        {"PART_ID": ids.partition, "PART_KEY_VAL": value, "INTEGER_IDX": index}
        for index, value in enumerate(new.values)
    ]
    conn.execute(insert(PARTITION_KEY_VALS), texts)
    created = {"PART_ID": ids.partition, "PARAM_KEY": DDL_TIME, "PARAM_VALUE": str(now_s)}
    conn.execute(insert(PARTITION_PARAMS).values(**created))


def _is_there(conn: Connection, new: NewPartition) -> bool:
    """Returns true if the table has the partition already.

    Raises:
        Refused: it has the partition in another place.
    """
    here = (PARTITIONS.c.TBL_ID == new.table.id, PARTITIONS.c.PART_NAME == new.name)
    query = select(SDS.c.LOCATION).join(PARTITIONS, PARTITIONS.c.SD_ID == SDS.c.SD_ID).where(*here)
    location = conn.execute(query).scalar()
    if location is not None and location.rstrip("/") != new.location.rstrip("/"):
        raise Refused(
            f"partition {new.name} of {new.table} was added at {location} meanwhile, where nothing was written; begin again"
        )
    return location is not None


def _copy(conn: Connection, table: SqlTable, rows: Select[Any], **own: object) -> None:
    """Inserts copies of ``rows`` of ``table`` with other values in the columns ``own``."""
    columns = [
        literal(own[c.name], c.type).label(c.name) if c.name in own else rows.selected_columns[c.name] for c in table.c
    ]
    conn.execute(insert(table).from_select([c.name for c in table.c], rows.with_only_columns(*columns)))
