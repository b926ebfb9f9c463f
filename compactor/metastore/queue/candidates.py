"""Tables and partitions that were written since they were last compacted, or that have aborted writes."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import (
    ColumnElement,
    Select,
    func,
    or_,
    select,
    union,
)

from compactor.compaction.entry import Entity
from compactor.database.engine import Database
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    COMPLETED_TXN_COMPONENTS,
    TXN_COMPONENTS,
    TXNS,
)
from compactor.metastore.transactions import rows as txn_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """The aborted transactions that wrote into one entity and are not yet forgotten."""

    count: int
    oldest_start: int  #: epoch ms at which the oldest of them was opened


class Candidates:
    """Reads the tables and partitions that may need a compaction."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    def page(self, limit: int, after: Entity | None = None) -> list[Entity]:
        """Returns entities with committed or aborted writes, in the order of their names, after ``after`` (PROTOCOL 10).

        Partition names are returned as recorded, so Hive's twice escaped form may come beside the stored one.
        """
        written = COMPLETED_TXN_COMPONENTS.c
        committed = select(
            self._dialect.exactly(written.CTC_DATABASE).label("db_name"),
            self._dialect.exactly(written.CTC_TABLE).label("table_name"),
            self._dialect.exactly(func.coalesce(written.CTC_PARTITION, "")).label("part_name"),
        ).where(written.CTC_TABLE.is_not(None))
        everything = union(committed, _aborted_components(self._dialect)).subquery()
        columns = everything.c
        query = (
            select(columns.db_name, columns.table_name, columns.part_name)
            .order_by(columns.db_name, columns.table_name, columns.part_name)
            .limit(limit)
        )
        if after is not None:
            query = query.where(_behind(columns.db_name, columns.table_name, columns.part_name, after))
        with self._database.read() as conn:
            return [
                Entity(database=row.db_name, table=row.table_name, partition=row.part_name or None)
                for row in conn.execute(query)
            ]

    def aborts(self) -> dict[Entity, Aborted]:
        """Returns every entity with aborted transactions, in one statement."""
        columns = TXN_COMPONENTS.c
        names = [self._dialect.exactly(name) for name in (columns.TC_DATABASE, columns.TC_TABLE, columns.TC_PARTITION)]
        query = (
            select(
                *(name.label(label) for name, label in zip(names, ("database", "table", "part"), strict=True)),
                func.count(TXNS.c.TXN_ID.distinct()).label("transactions"),
                func.min(TXNS.c.TXN_STARTED).label("oldest"),
            )
            .select_from(TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == columns.TC_TXNID))
            .where(TXNS.c.TXN_STATE == txn_rows.ABORTED, columns.TC_TABLE.is_not(None))
            .group_by(*names)
        )
        with self._database.read() as conn:
            return {
                Entity(database=row.database, table=row.table, partition=row.part): Aborted(
                    count=row.transactions, oldest_start=row.oldest
                )
                for row in conn.execute(query)
            }


def _aborted_components(dialect: Dialect) -> Select[tuple[str, str, str]]:
    columns = TXN_COMPONENTS.c
    return (
        select(
            dialect.exactly(columns.TC_DATABASE).label("db_name"),
            dialect.exactly(columns.TC_TABLE).label("table_name"),
            dialect.exactly(func.coalesce(columns.TC_PARTITION, "")).label("part_name"),
        )
        .select_from(TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == columns.TC_TXNID))
        .where(TXNS.c.TXN_STATE == txn_rows.ABORTED, columns.TC_TABLE.is_not(None))
    )


def _behind(
    database: ColumnElement[str], table: ColumnElement[str], partition: ColumnElement[str], after: Entity
) -> ColumnElement[bool]:
    same_table = (database == after.database) & (table == after.table)
    later_table = (database == after.database) & (table > after.table)
    return or_(database > after.database, later_table, same_table & (partition > (after.partition or "")))
