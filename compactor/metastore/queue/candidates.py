"""Tables and partitions that were written since they were last compacted, or that have aborted writes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Label, Select, cast, func, select

from compactor.acid import txn_states
from compactor.base.ids import WriteId
from compactor.compaction.decision_reuse import Writes
from compactor.compaction.entry import Entity
from compactor.database.engine import Database
from compactor.metastore.schema.dialect import Dialect
from compactor.metastore.schema.tables import (
    COMPLETED_TXN_COMPONENTS,
    TXN_COMPONENTS,
    TXNS,
)

_W = COMPLETED_TXN_COMPONENTS.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """The aborted transactions that wrote into one entity and are not yet forgotten."""

    count: int
    oldest_start: int  #: epoch ms at which the oldest of them was opened
    total: int = 0  #: the sum of their ids: another one if others of them were forgotten than came


class AbortFigures(NamedTuple):
    """The aborted transactions that are not yet forgotten, counted once for each entity that they wrote into."""

    total: int = 0
    most: int = 0  #: of one entity
    oldest_start: int | None = None  #: epoch ms


class Candidates:
    """Reads the tables and partitions that may need a compaction."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    def tables(self) -> dict[tuple[str, str], int]:
        """Returns the tables that were written since they were last compacted, by the names of their database and
        themselves, with the number of rows that say so."""
        names = [self._dialect.exactly(name) for name in (_W.CTC_DATABASE, _W.CTC_TABLE)]
        query = select(*_named(names), func.count().label("n")).where(_W.CTC_TABLE.is_not(None)).group_by(*names)
        with self._database.read() as conn:
            return {(row.name0, row.name1): row.n for row in conn.execute(query)}

    def written(self, tables: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str | None, Writes]]:
        """Returns what was written into each of ``tables`` since it was last compacted, by partition.

        Partition names are returned as recorded, so Hive's twice escaped form may come beside the stored one.
        """
        found: dict[tuple[str, str], dict[str | None, Writes]] = {table: {} for table in tables}
        names = [self._dialect.exactly(name) for name in (_W.CTC_DATABASE, _W.CTC_TABLE, _W.CTC_PARTITION)]
        total = cast(func.sum(_W.CTC_TXNID), BigInteger)  # exact, and no decimal
        columns: list[Any] = [*_named(names), func.count(), total]
        query = select(*columns).group_by(*names)
        # Two plain lists and not one of pairs, with which a server compares each row one by one.
        query = query.where(_W.CTC_DATABASE.in_({database for database, _ in tables}))
        query = query.where(_W.CTC_TABLE.in_({table for _, table in tables}))
        with self._database.read() as conn:
            for database, table, partition, rows, sum_of_txns in conn.execute(query).all():
                if (of_table := found.get((database, table))) is not None:
                    of_table[partition] = Writes(rows, sum_of_txns)
        return found

    def partitions(self, database: str, table: str, write_ids: Collection[WriteId]) -> list[str]:
        """Returns the partitions into which these write IDs wrote, as the writers recorded them, by name.

        What was compacted and cleaned since is recorded no longer.
        """
        if not write_ids:
            return []
        columns: list[Any] = [self._dialect.exactly(_W.CTC_PARTITION), _W.CTC_WRITEID]
        of_table = (_W.CTC_DATABASE == database, _W.CTC_TABLE == table, _W.CTC_PARTITION.is_not(None))
        query = select(*columns).where(*of_table, _W.CTC_WRITEID.between(min(write_ids), max(write_ids)))
        wanted = frozenset(write_ids)
        with self._database.read() as conn:
            return sorted({name for name, number in conn.execute(query).all() if number in wanted})

    def aborts(self) -> dict[Entity, Aborted]:
        """Returns every entity with aborted transactions, in one statement."""
        query, names = self._aborted()
        query = query.add_columns(*_named(names), cast(func.sum(TXNS.c.TXN_ID.distinct()), BigInteger).label("total"))
        with self._database.read() as conn:
            return {
                Entity(database=row.name0, table=row.name1, partition=row.name2): Aborted(
                    count=row.transactions, oldest_start=row.oldest, total=row.total
                )
                for row in conn.execute(query)
            }

    def abort_figures(self) -> AbortFigures:
        """Returns the sums of ``aborts``, as the database counts them."""
        found = self._aborted()[0].subquery()
        query = select(func.sum(found.c.transactions), func.max(found.c.transactions), func.min(found.c.oldest))
        with self._database.read() as conn:
            total, most, oldest = conn.execute(query).one()
        return AbortFigures(int(total or 0), int(most or 0), oldest)

    def _aborted(self) -> tuple[Select[Any], list[ColumnElement[str]]]:
        """Returns the query for the aborted transactions of each entity, and the names that it groups them by."""
        columns = TXN_COMPONENTS.c
        names = [self._dialect.exactly(name) for name in (columns.TC_DATABASE, columns.TC_TABLE, columns.TC_PARTITION)]
        figures: list[ColumnElement[Any]] = [
            func.count(TXNS.c.TXN_ID.distinct()).label("transactions"),
            func.min(TXNS.c.TXN_STARTED).label("oldest"),
        ]
        query = (
            select(*figures)
            .select_from(TXN_COMPONENTS.join(TXNS, TXNS.c.TXN_ID == columns.TC_TXNID))
            .where(TXNS.c.TXN_STATE == txn_states.ABORTED, columns.TC_TABLE.is_not(None))
            .group_by(*names)
        )
        return query, names


def _named(names: list[ColumnElement[str]]) -> list[Label[str]]:
    return [name.label(f"name{number}") for number, name in enumerate(names)]
