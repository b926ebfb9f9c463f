"""Changes rows of a Hive ACID table with Spark, through methods named as in Delta Lake's Python API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from compactor.spark_tables.changed_frames import (
    ChangedTarget,
    join_merged_rows,
    select_deleted_rows,
    select_updated_rows,
    store_source,
)
from compactor.spark_tables.clauses import (
    Clause,
    Expression,
    assigned_columns,
    find_columns,
    map_by_column,
    must_be_complete,
    must_name_columns,
)
from compactor.spark_tables.data_source import HiveAcid
from compactor.spark_tables.data_source_options import CHANGE, WITHIN, collect_sources
from compactor.spark_tables.keeper_requests import BeginChange, BegunChange, CountChange, MetastorePlace
from compactor.spark_tables.keeper_sources import parse_begun_change, parse_counts
from compactor.spark_tables.merge_scan_filter import build_key_filter
from compactor.spark_tables.program_session import activate, is_remote
from compactor.spark_tables.statement_control import ask_keeper, keep_alive
from compactor.tables.writing.row_change import CHECK, Changed, RowChangeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PUSHES = "spark.sql.python.filterPushdown.enabled"


@dataclass(frozen=True, kw_only=True)
class AcidTable:
    """A table by its name. Only methods that read or change rows contact the metastore."""

    spark: SparkSession
    name: str
    metastore: str = "default"
    config: str | None = None
    alias_name: str | None = None
    reads: tuple[tuple[str, str], ...] = ()  #: other tables that conditions read: name of the view, name of the table

    @classmethod
    def for_name(
        cls, spark: SparkSession, name: str, *, metastore: str = "default", config: str | None = None
    ) -> AcidTable:
        """Returns the table ``<database>.<table>`` of a session for which ``register`` was called."""
        return cls(spark=spark, name=name, metastore=metastore, config=config)

    def alias(self, name: str) -> AcidTable:
        """Returns the table with an alias for expressions.

        Without one, its own name without the database is the alias.
        """
        return replace(self, alias_name=name)

    def toDF(self) -> DataFrame:  # noqa: N802 - the name in Delta Lake and Spark
        """Returns the table's rows in a snapshot that is taken now."""
        read = self.spark.read.format(HiveAcid.name()).options(**self._options)
        return read.load().alias(self._alias)

    def delete(self, condition: Expression | None = None) -> Changed:
        """Deletes the rows for which ``condition`` is true, or all rows without a condition.

        Returns their number.

        Raises:
            NotSupported: Compactor does not write such a table.
            Refused: the table's mode is observe.
            LockNotGranted: another transaction holds a conflicting lock for longer than compactor.lock.wait.
            WriteConflict: another transaction changed rows in the same place and committed first.
            TransactionAborted: the transaction is lost; nothing was changed.
            CommitUnknown: nobody knows whether it was committed.
        """
        request = BeginChange(place=self._place, table=self.name, deletes=True, reads=self._read_tables)

        def rows(begun: BegunChange) -> DataFrame:
            return select_deleted_rows(self._target(begun, find_columns([condition], begun.columns)), condition)

        return self._run_change(request, rows)

    def update(self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None) -> Changed:
        """Updates the rows for which ``condition`` is true, or all rows without a condition.

        Returns their number.

        Args:
            set: the new values by column.

        Raises:
            NotFound: the table has no such column.
            NotSupported: as with ``delete``, or ``set`` assigns a partition or bucketing column.
            NotConforming: a value does not have its column's type.
            Refused: as with ``delete``, or ``set`` is empty.
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
            by_column = map_by_column(values, begun.columns, self.name)
            return select_updated_rows(self._target(begun), condition, by_column)

        return self._run_change(request, rows)

    def merge(self, source: DataFrame | SourceQuery, on: Expression) -> Merge:
        """Returns a merge of ``source`` into the table, where ``on`` decides which rows match.

        Add clauses for matched and unmatched rows, then call ``execute``.
        """
        return Merge(table=self, source=source, on=on)

    @property
    def _alias(self) -> str:
        return self.alias_name or self.name.rpartition(".")[2]

    @property
    def _options(self) -> dict[str, str]:
        options = {"table": self.name, "metastore": self.metastore}
        return options if self.config is None else {**options, "config": self.config}

    @property
    def _time_zone(self) -> str:
        return str(self.spark.conf.get("spark.sql.session.timeZone"))

    @property
    def _read_tables(self) -> tuple[str, ...]:
        return tuple(table for _, table in self.reads)

    @property
    def _place(self) -> MetastorePlace:
        return MetastorePlace(metastore=self.metastore, config=self.config)

    def _target(
        self, begun: BegunChange, columns: tuple[str, ...] | None = None, row_filter: str | None = None
    ) -> ChangedTarget:
        """Returns the rows that a change may concern, with their ROW__IDs and files."""
        read = self.spark.read.format(HiveAcid.name()).options(**self._options, **{CHANGE: begun.change})
        if columns is not None:
            read = read.option("columns", ",".join(columns))
        if row_filter is not None:
            read = read.option("filter", row_filter)
        return ChangedTarget(rows=read.load().alias(self._alias), begun=begun, table=self.name)

    def _run_change(self, request: BeginChange, rows: Callable[[BegunChange], DataFrame]) -> Changed:
        """Begins a change, lets Spark write the changed rows that ``rows`` returns, and returns their numbers."""
        place = {key: value for key, value in self._options.items() if key != "table"}
        # From here on the keeper holds the transaction and its locks. Spark's write commits it.
        begun = parse_begun_change(ask_keeper(self.spark, place, request))
        with keep_alive(self.spark, place, begun.change):
            activate(self.spark)
            with self._pushing(), self._views(begun):
                frame = rows(begun)
                write = frame.write.format(HiveAcid.name()).options(**self._options, **{CHANGE: begun.change})
                write.mode("append").save()
        return parse_counts(ask_keeper(self.spark, place, CountChange(change=begun.change)))

    @contextmanager
    def _views(self, begun: BegunChange) -> Iterator[None]:
        """Creates a view for each table that conditions read, under the snapshot and locks of the change."""
        read = self.spark.read.format(HiveAcid.name()).options(**self._options, **{WITHIN: begun.change})
        try:
            for view, table in self.reads:
                read.option("table", table).load().createOrReplaceTempView(view)
            yield
        finally:
            for view, _ in self.reads:
                with suppress(Exception):  # the session may have ended, which another error reports
                    self.spark.catalog.dropTempView(view)

    @contextmanager
    def _pushing(self) -> Iterator[None]:
        """Lets Spark push conditions into the scan, so that files that cannot meet them are not read."""
        before = self.spark.conf.get(_PUSHES)
        self.spark.conf.set(_PUSHES, "true")
        try:
            yield
        finally:
            self.spark.conf.set(_PUSHES, str(before))


@dataclass(frozen=True, kw_only=True)
class SourceQuery:
    """A query that is a merge's source.

    ``read`` returns its rows in the transaction of the change that it names.
    """

    read: Callable[[str], DataFrame]
    tables: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Merge:
    """A merge with its clauses so far.

    For each row, the first clause whose condition is true counts; NULL is not true.
    """

    table: AcidTable
    source: DataFrame | SourceQuery
    on: Expression
    clauses: tuple[Clause, ...] = ()

    def when_matched_update(
        self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None
    ) -> Merge:
        """Adds a clause that updates a matched row with the values of ``set``, by column."""
        return self._with(Clause(kind=RowChangeKind.UPDATE, condition=condition, values=dict(set or {})))

    def when_matched_update_all(self, condition: Expression | None = None) -> Merge:
        """Adds a clause that updates all columns of a matched row with the source's values.

        Partition and bucketing columns cannot change: the merge fails if the source has another value for one of them.
        """
        return self._with(Clause(kind=RowChangeKind.UPDATE, condition=condition))

    def when_matched_delete(self, condition: Expression | None = None) -> Merge:
        """Adds a clause that deletes a matched row."""
        return self._with(Clause(kind=RowChangeKind.DELETE, condition=condition, values={}))

    def when_not_matched_insert(
        self, condition: Expression | None = None, values: Mapping[str, Expression] | None = None
    ) -> Merge:
        """Adds a clause that inserts ``values``, by column, for an unmatched source row.

        Other columns become NULL.
        """
        return self._with(Clause(kind=RowChangeKind.INSERT, condition=condition, values=dict(values or {})))

    def when_not_matched_insert_all(self, condition: Expression | None = None) -> Merge:
        """Adds a clause that inserts an unmatched source row, by the names of its columns."""
        return self._with(Clause(kind=RowChangeKind.INSERT, condition=condition))

    def execute(self) -> Changed:
        """Merges; returns the numbers of deleted, updated and inserted rows.

        Spark evaluates the source once and stores its rows for the merge. A query of ``sql`` is read in the merge's
        transaction. A DataFrame keeps the snapshot with which it was loaded.

        Raises:
            Refused: a row matches several source rows (``hive.merge.cardinality.check``), or the merge has no clause or one
                that no row can reach.
            NotFound: the table has no such column.
            NotSupported: a clause assigns a partition or bucketing column.
            NotConforming: a value does not have its column's type.
            WriteConflict: as with ``AcidTable.delete``, or the source is a DataFrame of this table and another transaction
                has written into it since.
            LockNotGranted, TransactionAborted, CommitUnknown: as with ``AcidTable.delete``.
        """
        must_be_complete(self.clauses)
        kinds = {clause.kind for clause in self.clauses}
        is_query = isinstance(self.source, SourceQuery)
        sources = () if isinstance(self.source, SourceQuery) else collect_sources(self.source.schema)
        # Spark Connect loads a DataFrame when it evaluates it. If it may read this table, that has to happen under the lock.
        is_late = is_query or (bool(sources) and is_remote(self.table.spark))
        early = None if is_late else self._store_source()
        request = BeginChange(
            place=self.table._place,
            table=self.table.name,
            deletes=RowChangeKind.DELETE in kinds,
            assigns=assigned_columns(self.clauses),
            inserts=RowChangeKind.INSERT in kinds,
            is_checked=self._check if kinds != {RowChangeKind.INSERT} else False,
            time_zone=self.table._time_zone,
            reads=self.source.tables if isinstance(self.source, SourceQuery) else (),
            sources=() if is_late or kinds == {RowChangeKind.INSERT} else sources,
        )

        def rows(begun: BegunChange) -> DataFrame:
            source = self._store_source(begun.change) if early is None else early
            keys = build_key_filter(self.on, self.table._alias, begun, source)
            return join_merged_rows(self.table._target(begun, row_filter=keys), source, self.on, self.clauses)

        return self.table._run_change(request, rows)

    def _store_source(self, change: str = "") -> DataFrame:
        """Returns the rows of the source, evaluated once."""
        return store_source(self.source.read(change) if isinstance(self.source, SourceQuery) else self.source)

    @property
    def _check(self) -> bool | None:
        """The session's hive.merge.cardinality.check; None if the site's setting applies."""
        text = self.table.spark.conf.get(CHECK, None)
        return None if text is None else text.strip().lower() == "true"

    def _with(self, clause: Clause) -> Merge:
        return replace(self, clauses=(*self.clauses, clause))
