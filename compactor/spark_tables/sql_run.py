"""Runs SQL in a session of Spark.

Spark runs queries and changes of rows over DataFrames of ``hive_acid``. All other statements run as without Spark, in the
program's process.
"""

from __future__ import annotations

import gc
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from compactor.answers.explain_locks import planned_locks
from compactor.base.errors import CompactorError, LockNotGranted, NotConforming, NotSupported
from compactor.locking.lock_types import LockType
from compactor.locking.statement_rules import Name
from compactor.metastore.catalog.values import Table
from compactor.site.deployment import open_deployment
from compactor.spark_tables.acid_table import AcidTable, SourceQuery
from compactor.spark_tables.changed_frames import SOURCE_ROW, store_source
from compactor.spark_tables.clauses import Clause, is_plain
from compactor.spark_tables.data_source_options import (
    CREATES,
    INSERTS,
    SOURCES,
    STATEMENT,
    VERSION_AS_OF,
    WHERE,
    WITHIN,
    collect_sources,
    format_creation,
    format_sources,
)
from compactor.spark_tables.keeper_requests import BeginStatement, Creation, MetastorePlace, ReadersOf
from compactor.spark_tables.living_frames import copy_session, frame_watch
from compactor.spark_tables.pushdown import quote_name
from compactor.spark_tables.session import open_snapshot, register
from compactor.spark_tables.spark_plan import must_only_read
from compactor.spark_tables.spark_types import to_hive_columns
from compactor.spark_tables.statement_control import ask_keeper, keep_alive
from compactor.statements import parsed_actions
from compactor.statements.parsed_actions import Statement
from compactor.statements.spark_text import SparkText
from compactor.statements.tokens import Token
from compactor.tables.sql.named_partitions import key_values
from compactor.tables.sql.run_changes import columns_of_values
from compactor.tables.sql.run_queries import answer_if_there, must_be_there_once
from compactor.tables.sql.run_statements import HANDLERS, check_text
from compactor.tables.sql.sql_session import Session
from compactor.tables.writing.part_files import TARGET, values_column
from compactor.tables.writing.row_change import RowChangeKind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_TABLE = "compactor_table"  #: replaces each table of a query in the text that is checked
#: Classes of Spark's own functions
_OF_SPARK = ("org.apache.spark.sql.catalyst.expressions.", "org.apache.spark.sql.catalyst.plans.")


def sql(
    spark: SparkSession,
    text: str,
    *,
    database: str = "default",
    snapshot: str | None = None,
    time_zone: str | None = None,
    metastore: str = "default",
    config: str | None = None,
) -> DataFrame:
    """Runs the statements of ``text``, as ``compactor sql`` does, and returns the rows of the last one.

    Args:
        database: the current database at the beginning.
        snapshot: the name that ``snapshot`` yields; all queries read under it. Without it, a query gets its own snapshot for
            all of its tables, which ends once no DataFrame needs it, and a statement that writes reads in its own
            transaction.
        time_zone: as for a write with ``hive_acid``.
        metastore, config: as for a read with ``hive_acid``.

    Raises:
        BadStatement: a statement is not one of the supported ones; nothing was done.
        NotSupported: a statement cannot be run here; nothing was done.
        CompactorError: as ``compactor sql``.
        Exception: Spark's error of a query or a write.
    """
    options = {"metastore": metastore, **({} if config is None else {"config": config})}
    statements = check_text(text, has_spark=True)
    _must_be_harmless(spark, SparkText(text), statements)
    register(spark)
    with _Script(spark, text, options, database) as script:
        script.snapshot, script.time_zone = snapshot, time_zone
        *others, last = statements
        for statement in others:
            script.run(statement)
        return script.run(last)


def _must_be_harmless(spark: SparkSession, text: SparkText, statements: Sequence[Statement]) -> None:
    """Checks every text that Spark will get, before the first statement runs.

    Raises:
        NotSupported: a text reaches code, files or another catalog.
        Exception: Spark cannot parse a query.
    """
    in_transaction = False
    for statement in statements:
        match statement.action:
            case parsed_actions.StartTransaction():
                in_transaction = True
            case parsed_actions.Commit() | parsed_actions.Rollback():
                in_transaction = False
            case action if not in_transaction:
                for call in text.functions_to_look_up(action):
                    _must_be_registered(spark, call)
                for query in text.whole_queries(action, _TABLE):
                    must_only_read(spark, query, [_TABLE])


def _must_be_registered(spark: SparkSession, call: Token) -> None:
    """Checks that a function that we do not know is one that the program has registered in its session.

    Raises:
        NotSupported: it is not; it may belong to a catalog or a newer Spark.
    """
    name = quote_name(call.value)
    if spark.catalog.functionExists(name):
        function = spark.catalog.getFunction(name)
        if function.isTemporary and not (function.className or "").startswith(_OF_SPARK):
            return
    raise NotSupported(
        f"statement: {call.place}: {call} is neither a function of Spark that may be called here nor registered in this "
        "session (spark.udf.register); put AS before a name with columns; nothing was done"
    )


class _Script:
    """The statements of one text in a session of Spark. It opens the metastore once a statement needs it."""

    def __init__(self, spark: SparkSession, text: str, options: Mapping[str, str], database: str) -> None:
        self._spark, self._text, self._options, self._database = spark, text, options, database
        self._spark_text = SparkText(text)
        self._stack = ExitStack()
        self._session: Session | None = None
        self.snapshot: str | None = None
        self.time_zone: str | None = None

    def __enter__(self) -> _Script:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._session is not None:
            self._session.roll_back()
        self._stack.close()

    @property
    def session(self) -> Session:
        """The session over the metastore."""
        if self._session is None:
            site = open_deployment(self._options["metastore"], config_path=self._options.get("config"))
            self._session = Session(self._stack.enter_context(site), self._database)
        return self._session

    def run(self, statement: Statement) -> DataFrame:
        """Runs one statement."""
        action = statement.action
        in_transaction = self._session is not None and self._session.transaction is not None
        match action:
            case parsed_actions.NeedsSpark(query=query, into=into):
                return self._query(query) if into is None else self._insert(statement, query, into)
            case parsed_actions.Select(query=query) if query is not None and not in_transaction:
                return self._query(query, where=action.where if "\\" not in self._text else None)
            case parsed_actions.Update() | parsed_actions.Delete() if not in_transaction:
                return self._change(statement, action)
            case parsed_actions.MultiInsert():
                return self._insert_all(statement, action)
            case parsed_actions.CreateTableAs():
                return self._create(statement, action)
            case parsed_actions.MergeStatement():
                return self._merge(statement, action)
        self._must_not_block_itself(statement)
        answer = HANDLERS[type(action)](self.session, statement, action)
        return _make_frame(self._spark, list(answer.rows), answer.columns)

    def _query(
        self,
        query: parsed_actions.Query,
        within: str | None = None,
        before: str = "",
        where: str | None = None,
        **other_frames: DataFrame,
    ) -> DataFrame:
        """Returns a query's DataFrame.

        Spark gets the query's text with DataFrames in place of the tables' names.

        Args:
            within: the statement or change that reads the query.
            before: text in front of the query, with the names of ``other_frames``.
            where: the condition of a query that names one table once.
        """
        # "select a from t" becomes "select a from {table_0}", and Spark gets the DataFrame table_0.
        tables = list(dict.fromkeys((place.table, place.version) for place in query.places))
        fields = {table: f"table_{number}" for number, table in enumerate(tables)}
        text = before + self._spark_text.query(query, lambda place: f"{{{fields[place.table, place.version]}}}")
        if not tables and not other_frames:
            return self._spark.sql(text.format())
        # Several tables need a common snapshot. A single table gets its own when it is loaded.
        read_options = self._read_options(within)
        has_own_snapshot = not read_options
        if has_own_snapshot and len(tables) > 1:
            is_watched = frame_watch(self._spark) is not None
            read_options = {"snapshot": open_snapshot(self._spark, self._options, is_of_frames=is_watched)}
        if where is not None:
            read_options[WHERE] = where
        frames = {
            field: self._read(name, **read_options, **({} if version is None else {VERSION_AS_OF: str(version)}))
            for (name, version), field in fields.items()
        }
        if not has_own_snapshot or (watch := frame_watch(self._spark)) is None:
            return self._spark.sql(text, **other_frames, **frames)
        # The query's own snapshot ends once its last DataFrame is garbage.
        session = copy_session(self._spark)
        snapshots = {source.snapshot for frame in frames.values() for source in collect_sources(frame.schema)}
        watch.watch(session, snapshots, self._options)
        return session.sql(text, **other_frames, **frames)

    def _must_not_block_itself(self, statement: Statement) -> None:
        """Refuses a statement that needs an exclusive lock on a table that this program still reads.

        Raises:
            LockNotGranted: the program still reads it.
        """
        try:
            locks = planned_locks(self.session.site, statement, self.session.database)
        except CompactorError:  # running the statement raises a better error
            return
        requests = [lock.request for lock in locks if lock.request.type is LockType.EXCLUSIVE]
        for table in sorted({f"{request.database}.{request.table}" for request in requests if request.table}):
            if self._own_readers(table):
                gc.collect()  # DataFrames that only refer to each other are not needed
            if txns := self._own_readers(table):
                raise LockNotGranted(
                    f"{statement.name}: this program itself still reads {table}, in transaction "
                    f"{', '.join(map(str, txns))}: a loaded DataFrame or view, or an open snapshot, needs it. Read within "
                    "compactor.spark_tables.snapshot: at its end the table is free"
                )

    def _own_readers(self, table: str) -> list[int]:
        """Returns the transactions in which this program still reads a table.

        Snapshots that nothing needs are released first.
        """
        if (watch := frame_watch(self._spark)) is not None:
            watch.settle()
        txns: list[int] = json.loads(
            ask_keeper(self._spark, self._options, ReadersOf(place=MetastorePlace(), table=table))
        )["txns"]
        return txns

    def _read_options(self, within: str | None) -> dict[str, str]:
        """Returns the options of a statement's reads.

        They read under the text's snapshot if it has one, else in the statement's transaction.
        """
        if self.snapshot is not None:
            return {"snapshot": self.snapshot}
        return {} if within is None else {WITHIN: within}

    @contextmanager
    def _statement(
        self, targets: Sequence[Name], into: parsed_actions.InsertTarget | None, *queries: parsed_actions.Query
    ) -> Iterator[str]:
        """Begins a statement that writes the rows of queries, and yields its name.

        If the block raises, aborts it.
        """
        tables = dict.fromkeys(self._qualify(name) for query in queries for name in _table_names(query))
        request = BeginStatement(
            place=MetastorePlace(),
            targets=tuple(map(self._qualify, targets)),
            overwrites=into is not None and into.overwrite,
            reads=() if self.snapshot is not None else tuple(tables),
        )
        name: str = json.loads(ask_keeper(self._spark, self._options, request))
        with keep_alive(self._spark, self._options, name):
            yield name

    def _read(self, name: Name, **options: str) -> DataFrame:
        return (
            self._spark.read.format("hive_acid").options(table=self._qualify(name), **self._options, **options).load()
        )

    def _table(self, name: Name, alias: str) -> AcidTable:
        return AcidTable.for_name(self._spark, self._qualify(name), **self._options).alias(alias)

    def _change(self, statement: Statement, action: parsed_actions.Update | parsed_actions.Delete) -> DataFrame:
        """Updates or deletes rows; raises as ``AcidTable`` does."""
        table = self._table(action.table, action.alias)
        condition = self._expression(action.condition)
        if action.nested is not None:
            views = {place.table: f"compactor_{uuid.uuid4().hex}" for place in action.nested.places}
            table = replace(table, reads=tuple((view, self._qualify(name)) for name, view in views.items()))
            condition = f"({self._spark_text.query(action.nested, lambda place: views[place.table]).format()})"
        if isinstance(action, parsed_actions.Delete):
            count = table.delete(condition).deleted
        else:
            columns = (column for column, _ in action.assignments)
            values = dict(zip(columns, map(self._parenthesize, action.values), strict=True))
            count = table.update(condition, values).updated
        return _make_frame(self._spark, [{"statement": statement.name, "table": table.name, "rows": count}], ())

    def _merge(self, statement: Statement, action: parsed_actions.MergeStatement) -> DataFrame:
        """Merges a table or the rows of a query; raises as ``AcidTable.merge`` does.

        Raises:
            NotConforming: an INSERT has too few or too many values.
        """
        table = self._table(action.table, action.alias)
        merge = table.merge(self._source(action), self._parenthesize(action.on))
        for clause in action.clauses:
            condition = self._expression(clause.condition)
            values = map(self._parenthesize, clause.values)
            if isinstance(clause, parsed_actions.WhenNotMatched):
                insert = Clause(kind=RowChangeKind.INSERT, condition=condition, row=tuple(values), named=clause.columns)
                merge = replace(merge, clauses=(*merge.clauses, insert))
            elif clause.columns:
                merge = merge.when_matched_update(condition, dict(zip(clause.columns, values, strict=True)))
            else:
                merge = merge.when_matched_delete(condition)
        return _make_frame(
            self._spark, [{"statement": statement.name, "table": table.name, **asdict(merge.execute())}], ()
        )

    def _source(self, action: parsed_actions.MergeStatement) -> SourceQuery | DataFrame:
        """Returns the source of a merge, read in the merge's transaction or under the text's snapshot."""

        def read(change: str | None) -> DataFrame:
            source = action.source
            frame = (
                self._read(source, **self._read_options(change))
                if isinstance(source, Name)
                else self._query(source, change)
            )
            return frame.alias(action.source_alias)

        if self.snapshot is not None:
            return read(None)
        names = [action.source] if isinstance(action.source, Name) else _table_names(action.source)
        return SourceQuery(read=read, tables=tuple(map(self._qualify, names)))

    def _expression(self, span: parsed_actions.Span | None) -> str | None:
        return None if span is None else self._parenthesize(span)

    def _parenthesize(self, span: parsed_actions.Span) -> str:
        """Returns the text of an expression, in parentheses so that Spark reads it as a single expression."""
        text = self._spark_text.expression(span)
        return text if is_plain(text) else f"({text})"

    def _insert(
        self, statement: Statement, query: parsed_actions.Query, into: parsed_actions.InsertTarget
    ) -> DataFrame:
        """Writes the rows of a query.

        Raises:
            NotSupported: it overwrites a partition that the statement names: a query without rows would replace nothing.
            NotConforming: the query has too few or too many columns.
        """
        mode = "overwrite" if into.overwrite else "append"
        with self._statement([into.table], into, query) as name:
            table = self.session.load_table(into.table)  # under the lock, so its columns cannot change
            if into.overwrite and key_values(table, into.partition):
                raise NotSupported(
                    f"{statement.name} at {statement.place}: PARTITION with values; select them in the query, as dynamic "
                    "partitions"
                )
            rows = _name_columns(table, into, self._query(query, name))
            sources = self._sources(table, query)
            options = {"table": str(table), STATEMENT: name, SOURCES: sources, **self._write_options}
            rows.write.format("hive_acid").options(**options).mode(mode).save()
        return _make_frame(self._spark, [{"statement": statement.name, "table": str(table)}], ())

    def _insert_all(self, statement: Statement, action: parsed_actions.MultiInsert) -> DataFrame:
        """Writes the rows of several INSERTs in one job and one transaction, which also reads their query.

        Raises:
            NotConforming: a SELECT has too few or too many columns.
            Refused: two INSERTs name one table.
        """
        names = [insert.into.table for insert in action.inserts]
        queries = [*([] if action.source is None else [action.source]), *(insert.query for insert in action.inserts)]
        with self._statement(names, None, *queries) as name:
            targets = [self.session.load_table(table) for table in names]
            rows = self._rows_of_inserts(action, targets, name)
            tables = json.dumps([str(target) for target in targets])
            options = {INSERTS: tables, STATEMENT: name, **self._write_options}
            rows.write.format("hive_acid").options(**options).mode("append").save()
        return _make_frame(self._spark, [{"statement": statement.name, "table": str(target)} for target in targets], ())

    def _rows_of_inserts(self, action: parsed_actions.MultiInsert, targets: Sequence[Table], within: str) -> DataFrame:
        """Returns the rows of several INSERTs in one DataFrame, each with the number of its INSERT."""
        from pyspark.sql.functions import lit, struct

        source: dict[str, DataFrame] = {}
        before = ""
        if action.source is not None:
            source = {"source": store_source(self._query(action.source, within)).drop(SOURCE_ROW)}
            before = f"FROM {{source}} AS {quote_name(action.alias)} "
        union: DataFrame | None = None
        for number, (insert, target) in enumerate(zip(action.inserts, targets, strict=True)):
            rows = _name_columns(target, insert.into, self._query(insert.query, within, before, **source))
            numbered = rows.select(lit(number).alias(TARGET), struct("*").alias(values_column(number)))
            union = numbered if union is None else union.unionByName(numbered, allowMissingColumns=True)
        assert union is not None
        return union

    def _create(self, statement: Statement, action: parsed_actions.CreateTableAs) -> DataFrame:
        """Creates a table with the rows of a query.

        Raises:
            NotConforming: the query has a column twice, or one without a name.
            NotSupported: Hive has no type for a column.
            Refused: a table of this name exists, or the metastore is Hive's.
        """
        answer = answer_if_there(self.session, statement, action)
        if answer is not None:
            return _make_frame(self._spark, list(answer.rows), answer.columns)
        table = self._qualify(action.table)
        with self._statement([], None, action.query) as name:
            self._write_new(table, action, self._query(action.query, name), name)
        return _make_frame(self._spark, [{"statement": statement.name, "table": table, "created": True}], ())

    def _write_new(self, name: str, action: parsed_actions.CreateTableAs, rows: DataFrame, statement: str) -> None:
        """Writes the rows of a new table; the commit creates it."""
        columns = to_hive_columns(name, rows.schema, has_time_zone=self.time_zone is not None)
        must_be_there_once(name, [column for column, _ in columns])
        creation = Creation(
            columns=columns,
            partitioned_by=action.partitioned_by,
            clustered_by=action.clustered_by,
            buckets=action.buckets,
            location=action.location,
            properties=action.properties,
        )
        options = {"table": name, CREATES: format_creation(creation), STATEMENT: statement, **self._write_options}
        rows.write.format("hive_acid").options(**options).mode("append").save()

    def _sources(self, target: Table, query: parsed_actions.Query) -> str:
        """Returns the option ``sources``: the statement's own target, if it is read under the text's snapshot.

        Other reads need no such check: without that snapshot they happen in the statement's own transaction.
        """
        names = [name for name in _table_names(query) if self._qualify(name) == str(target)]
        if self.snapshot is None or not names:
            return format_sources([])
        return format_sources(collect_sources(self._read(names[0], snapshot=self.snapshot).schema))

    @property
    def _write_options(self) -> dict[str, str]:
        """The options of every write."""
        return {**self._options, **({} if self.time_zone is None else {"time_zone": self.time_zone})}

    def _qualify(self, name: Name) -> str:
        current = self._database if self._session is None else self._session.database
        return f"{name.database or current}.{name.table}"


def _table_names(query: parsed_actions.Query) -> list[Name]:
    """Returns the tables that a query names, each once."""
    return list(dict.fromkeys(place.table for place in query.places))


def _name_columns(table: Table, into: parsed_actions.InsertTarget, rows: DataFrame) -> DataFrame:
    """Names a query's columns like those that an INSERT fills, and adds the values of its PARTITION.

    Raises:
        NotConforming: the query has too few or too many columns.
    """
    from pyspark.sql.functions import lit

    static = key_values(table, into.partition)
    names = [column.name for column in columns_of_values(table, into, static)]
    if len(rows.columns) != len(names):
        raise NotConforming(
            f"{table}: the query has {len(rows.columns)} columns; expected are {len(names)}, for {', '.join(names)}"
        )
    rows = rows.toDF(*names)
    for key, value in static.items():
        rows = rows.withColumn(key, lit(value))
    return rows


def _make_frame(spark: SparkSession, rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> DataFrame:
    """Returns rows as a DataFrame; lists and structures become JSON texts."""
    names = list(dict.fromkeys([*(name for row in rows for name in row), *columns]))
    kinds = {name: _column_type([row.get(name) for row in rows]) for name in names}
    schema = ", ".join(f"{quote_name(name)} {kind}" for name, kind in kinds.items())
    values = [tuple(_to_cell(row.get(name), kinds[name]) for name in names) for row in rows]
    return spark.createDataFrame(values, schema)


def _column_type(values: Sequence[object]) -> str:
    """Returns Spark's type of a column."""
    types = {type(value) for value in values if value is not None}
    return {frozenset((bool,)): "boolean", frozenset((int,)): "bigint"}.get(frozenset(types), "string")


def _to_cell(value: Any, kind: str) -> Any:
    if value is None or kind != "string" or isinstance(value, str):
        return value
    return json.dumps(value, default=str)
