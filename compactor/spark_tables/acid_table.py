"""A Hive ACID table whose rows a program of Spark changes, in the words of Delta Lake's Python API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compactor.spark_tables.active_session import activate, is_remote
from compactor.spark_tables.changed_frames import Target, deleted_rows, merged_rows, stored, updated_rows
from compactor.spark_tables.clauses import (
    Clause,
    Expression,
    assigned,
    by_column,
    columns_in,
    must_be_complete,
    must_name_columns,
)
from compactor.spark_tables.data_source import HiveAcid
from compactor.spark_tables.data_source_options import CHANGE, WITHIN
from compactor.spark_tables.frame_sources import sources_in
from compactor.spark_tables.merge_scan_filter import key_filter
from compactor.spark_tables.messages import BeginChange, BegunChange, CountChange, Place
from compactor.spark_tables.row_changes import begun_of, counts_of
from compactor.spark_tables.statement_control import ask_keeper, at_work
from compactor.tables.writing.row_change import CHECK, Changed, Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PUSHES = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True, kw_only=True)
class AcidTable:
    """A table by its name. Nothing is asked of the metastore until a method is called that reads or changes rows."""

    spark: SparkSession
    name: str
    metastore: str = "default"
    config: str | None = None
    alias_name: str | None = None
    reads: tuple[tuple[str, str], ...] = ()  #: names of views by which conditions call other tables, and these

    @classmethod
    def for_name(
        cls, spark: SparkSession, name: str, *, metastore: str = "default", config: str | None = None
    ) -> AcidTable:
        """Returns the table ``<database>.<table>`` of a session for which ``register`` was called."""
        return cls(spark=spark, name=name, metastore=metastore, config=config)

    def alias(self, name: str) -> AcidTable:
        """Returns the table under a name by which expressions call it; without one that is its own, without the database."""
        return replace(self, alias_name=name)

    def toDF(self) -> DataFrame:  # noqa: N802 - the name in Delta Lake and Spark
        """Returns its rows, in one snapshot that is taken now."""
        read = self.spark.read.format(HiveAcid.name()).options(**self._options)
        return read.load().alias(self._alias)

    def delete(self, condition: Expression | None = None) -> Changed:
        """Deletes the rows for which ``condition`` is true, all rows without it, and returns how many.

        Raises:
            NotSupported: the table is none that is written here.
            Refused: the table's mode is observe.
            LockNotGranted: somebody holds a conflicting lock for longer than compactor.lock.wait.
            WriteConflict: another transaction changed rows in the same place and committed first.
            TransactionAborted: the transaction is lost; nothing was changed.
            CommitUnknown: nobody knows whether it was committed.
        """
        request = BeginChange(place=self._place, table=self.name, deletes=True, reads=self._read_tables)

        def rows(begun: BegunChange) -> DataFrame:
            return deleted_rows(self._target(begun, columns_in([condition], begun.columns)), condition)

        return self._changed(request, rows)

    def update(self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None) -> Changed:
        """Gives the rows for which ``condition`` is true, all rows without it, the values of ``set``, by column, and returns
        how many.

        Raises:
            NotFound: there is no such column.
            NotSupported: also if a partition or bucketing column is assigned.
            NotConforming: a value is not of its column's type.
            Refused: also if ``set`` names no column.
            LockNotGranted, WriteConflict, TransactionAborted, CommitUnknown: as with ``delete``.
        """
        values = dict(set or {})
        must_name_columns(values, "update")
        request = BeginChange(
            place=self._place,
            table=self.name,
            assigns=tuple(sorted(values)),
            reads=self._read_tables,
            time_zone=self._time_zone,
        )

        def rows(begun: BegunChange) -> DataFrame:
            named = by_column(values, begun.columns, self.name)
            return updated_rows(self._target(begun), condition, named)

        return self._changed(request, rows)

    def merge(self, source: DataFrame | SourceQuery, on: Expression) -> Merge:
        """Returns a merge of the rows of ``source``, those that match by ``on`` and those that do not; clauses say what
        becomes of them, and ``execute`` does it."""
        return Merge(table=self, source=source, on=on)

    @property
    def _alias(self) -> str:
        return self.alias_name or self.name.rpartition(".")[2]

    @property
    def _options(self) -> dict[str, str]:
        named = {"table": self.name, "metastore": self.metastore}
        return named if self.config is None else {**named, "config": self.config}

    @property
    def _time_zone(self) -> str:
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    @property
    def _read_tables(self) -> tuple[str, ...]:
        return tuple(table for _, table in self.reads)

    @property
    def _place(self) -> Place:
        return Place(metastore=self.metastore, config=self.config)

    def _target(
        self, begun: BegunChange, columns: tuple[str, ...] | None = None, row_filter: str | None = None
    ) -> Target:
        """Returns the rows that a change may find, with their ROW__IDs and files."""
        read = self.spark.read.format(HiveAcid.name()).options(**self._options, **{CHANGE: begun.change})
        if columns is not None:
            read = read.option("columns", ",".join(columns))
        if row_filter is not None:
            read = read.option("filter", row_filter)
        return Target(rows=read.load().alias(self._alias), begun=begun, table=self.name)

    def _changed(self, request: BeginChange, rows: Callable[[BegunChange], DataFrame]) -> Changed:
        """Does one change: begins it, lets Spark write what ``rows`` finds, and returns how many they are."""
        place = {key: value for key, value in self._options.items() if key != "table"}
        begun = begun_of(ask_keeper(self.spark, place, request))
        with at_work(self.spark, place, begun.change):
            activate(self.spark)
            with self._pushing(), self._views(begun):
                frame = rows(begun)
                write = frame.write.format(HiveAcid.name()).options(**self._options, **{CHANGE: begun.change})
                write.mode("append").save()
        return counts_of(ask_keeper(self.spark, place, CountChange(change=begun.change)))

    @contextmanager
    def _views(self, begun: BegunChange) -> Iterator[None]:
        """Makes the tables that conditions read views, under the snapshot of the change and with its locks."""
        read = self.spark.read.format(HiveAcid.name()).options(**self._options, **{WITHIN: begun.change})
        try:
            for view, table in self.reads:
                read.option("table", table).load().createOrReplaceTempView(view)
            yield
        finally:
            for view, _ in self.reads:
                with suppress(Exception):  # of a session that has ended, too, which another error says
                    self.spark.catalog.dropTempView(view)

    @contextmanager
    def _pushing(self) -> Iterator[None]:
        """Lets Spark push conditions into the read, so that what cannot meet them is not read."""
        before = self.spark.conf.get(_PUSHES)
        self.spark.conf.set(_PUSHES, "true")
        try:
            yield
        finally:
            self.spark.conf.set(_PUSHES, str(before))


@dataclass(frozen=True, kw_only=True)
class SourceQuery:
    """A query of tables that is a merge's source: ``read`` returns its rows within a change, by the name of that."""

    read: Callable[[str], DataFrame]
    tables: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Merge:
    """A merge with the clauses that it has so far. Of the clauses for a row the first whose condition is true counts; a
    condition that is NULL is not."""

    table: AcidTable
    source: DataFrame | SourceQuery
    on: Expression
    clauses: tuple[Clause, ...] = ()

    def when_matched_update(
        self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None
    ) -> Merge:
        """Adds a clause that gives a row that is matched the values of ``set``, by column."""
        return self._with(Clause(kind=Kind.UPDATE, condition=condition, values=dict(set or {})))

    def when_matched_update_all(self, condition: Expression | None = None) -> Merge:
        """Adds a clause that gives a row that is matched the source's values of all columns. Partition and bucketing columns
        keep theirs, and a row of the source that has another one fails the merge."""
        return self._with(Clause(kind=Kind.UPDATE, condition=condition))

    def when_matched_delete(self, condition: Expression | None = None) -> Merge:
        """Adds a clause that deletes a row that is matched."""
        return self._with(Clause(kind=Kind.DELETE, condition=condition, values={}))

    def when_not_matched_insert(
        self, condition: Expression | None = None, values: Mapping[str, Expression] | None = None
    ) -> Merge:
        """Adds a clause that inserts ``values``, by column, for a row of the source that matches none; a column that is left
        out is NULL."""
        return self._with(Clause(kind=Kind.INSERT, condition=condition, values=dict(values or {})))

    def when_not_matched_insert_all(self, condition: Expression | None = None) -> Merge:
        """Adds a clause that inserts a row of the source that matches none, by the names of its columns."""
        return self._with(Clause(kind=Kind.INSERT, condition=condition))

    def execute(self) -> Changed:
        """Merges, and returns the numbers of rows that were deleted, updated and inserted.

        The source is evaluated once, and kept by Spark until that is done. Tables that it reads are read in the transaction
        of the merge, where it is a query of ``sql``; a DataFrame has the snapshot that it was loaded with.

        Raises:
            Refused: a row matches several rows of the source (``hive.merge.cardinality.check``); there is no clause, or one
                that no row can reach.
            NotFound: there is no such column.
            NotSupported: a partition or bucketing column is assigned.
            NotConforming: a value is not of its column's type.
            WriteConflict: also if the source is a DataFrame of this table, and another transaction has written into it
                since.
            LockNotGranted, TransactionAborted, CommitUnknown: as with ``AcidTable.delete``.
        """
        must_be_complete(self.clauses)
        kinds = {clause.kind for clause in self.clauses}
        is_query = isinstance(self.source, SourceQuery)
        sources = () if isinstance(self.source, SourceQuery) else sources_in(self.source.schema)
        # a DataFrame of Spark Connect is loaded when it is evaluated: under the lock then, if it may be one of this table
        is_late = is_query or (bool(sources) and is_remote(self.table.spark))
        early = None if is_late else self._stored()
        request = BeginChange(
            place=self.table._place,
            table=self.table.name,
            deletes=Kind.DELETE in kinds,
            assigns=assigned(self.clauses),
            inserts=Kind.INSERT in kinds,
            is_checked=self._check if kinds != {Kind.INSERT} else False,
            time_zone=self.table._time_zone,
            reads=self.source.tables if isinstance(self.source, SourceQuery) else (),
            sources=() if is_late or kinds == {Kind.INSERT} else sources,
        )

        def rows(begun: BegunChange) -> DataFrame:
            source = self._stored(begun.change) if early is None else early
            keys = key_filter(self.on, self.table._alias, begun, source)
            return merged_rows(self.table._target(begun, row_filter=keys), source, self.on, self.clauses)

        return self.table._changed(request, rows)

    def _stored(self, change: str = "") -> DataFrame:
        """Returns the rows of the source, evaluated once."""
        return stored(self.source.read(change) if isinstance(self.source, SourceQuery) else self.source)

    @property
    def _check(self) -> bool | None:
        """The session's hive.merge.cardinality.check; None for the site's."""
        text = self.table.spark.conf.get(CHECK, None)
        return None if text is None else text.strip().lower() == "true"

    def _with(self, clause: Clause) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))
