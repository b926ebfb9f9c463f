"""Tables and partitions with writes since their last compaction, or with aborted writes."""

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
    total: int = 0  #: the sum of their ids, which changes if one is forgotten and another one is added


class AbortFigures(NamedTuple):
    """The aborted transactions that are not yet forgotten, counted once for each entity that they wrote into."""

    total: int = 0
    most: int = 0  #: the largest number in one entity
    oldest_start: int | None = None  #: epoch ms


class Candidates:
    """Reads the tables and partitions that may need a compaction."""

    def __init__(self, database: Database, dialect: Dialect) -> None:
        self._database = database
        self._dialect = dialect

    def tables(self) -> dict[tuple[str, str], int]:
        """Returns the tables (database and name) with writes since their last compaction, and how many rows record them."""
        names = [self._dialect.exactly(name) for name in (_W.CTC_DATABASE, _W.CTC_TABLE)]
        query = select(*_label_names(names), func.count().label("n")).where(_W.CTC_TABLE.is_not(None)).group_by(*names)
        with self._database.read() as conn:
            return {(row.name0, row.name1): row.n for row in conn.execute(query)}

    def written(self, tables: Collection[tuple[str, str]]) -> dict[tuple[str, str], dict[str | None, Writes]]:
        """Returns the writes into each of ``tables`` since its last compaction, by partition.

        Partition names are as recorded, so a name may also occur in Hive's twice escaped form.
        """
        writes: dict[tuple[str, str], dict[str | None, Writes]] = {table: {} for table in tables}
        names = [self._dialect.exactly(name) for name in (_W.CTC_DATABASE, _W.CTC_TABLE, _W.CTC_PARTITION)]
        total = cast(func.sum(_W.CTC_TXNID), BigInteger)  # exact, and not a decimal
        columns: list[Any] = [*_label_names(names), func.count(), total]
        query = select(*columns).group_by(*names)
        # Two plain lists are faster than a list of pairs, which a server compares with each row one by one.
        query = query.where(_W.CTC_DATABASE.in_({database for database, _ in tables}))
        query = query.where(_W.CTC_TABLE.in_({table for _, table in tables}))
        with self._database.read() as conn:
            for database, table, partition, rows, sum_of_txns in conn.execute(query).all():
                if (of_table := writes.get((database, table))) is not None:
                    of_table[partition] = Writes(rows, sum_of_txns)
        return writes

    def partitions(self, database: str, table: str, write_ids: Collection[WriteId]) -> list[str]:
        """Returns the partitions into which these write IDs wrote, as recorded by the writers, sorted.

        Cleaning after a compaction removes the records.
        """
        if not write_ids:
            return []
        columns: list[Any] = [self._dialect.exactly(_W.CTC_PARTITION), _W.CTC_WRITEID]
        of_table = (_W.CTC_DATABASE == database, _W.CTC_TABLE == table, _W.CTC_PARTITION.is_not(None))
        query = select(*columns).where(*of_table, _W.CTC_WRITEID.between(min(write_ids), max(write_ids)))
        numbers = frozenset(write_ids)
        with self._database.read() as conn:
            return sorted({name for name, number in conn.execute(query).all() if number in numbers})

    def aborts(self) -> dict[Entity, Aborted]:
        """Returns every entity with aborted transactions, in one statement."""
        query, names = self._aborted()
        query = query.add_columns(
            *_label_names(names), cast(func.sum(TXNS.c.TXN_ID.distinct()), BigInteger).label("total")
        )
        with self._database.read() as conn:
            return {
                Entity(database=row.name0, table=row.name1, partition=row.name2): Aborted(
                    count=row.transactions, oldest_start=row.oldest, total=row.total
                )
                for row in conn.execute(query)
            }

    def abort_figures(self) -> AbortFigures:
        """Returns the sums of ``aborts``, counted by the database."""
        aborted = self._aborted()[0].subquery()
        query = select(func.sum(aborted.c.transactions), func.max(aborted.c.transactions), func.min(aborted.c.oldest))
        with self._database.read() as conn:
            total, most, oldest = conn.execute(query).one()
        return AbortFigures(int(total or 0), int(most or 0), oldest)

    def _aborted(self) -> tuple[Select[Any], list[ColumnElement[str]]]:
        """Returns the query for the aborted transactions of each entity, and the names by which it groups them."""
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


def _label_names(names: list[ColumnElement[str]]) -> list[Label[str]]:
    return [name.label(f"name{number}") for number, name in enumerate(names)]
