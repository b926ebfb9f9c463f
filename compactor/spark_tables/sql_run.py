"""SQL in a session of Spark: queries and changes of rows are Spark's, over DataFrames of ``hive_acid``; every other
statement is done as without it, where the program runs."""

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
from compactor.locking.accesses import Name
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.site.deployment import open_deployment
from compactor.spark_tables.acid_table import AcidTable, SourceQuery
from compactor.spark_tables.changed_frames import SOURCE_ROW, stored
from compactor.spark_tables.clauses import Clause, is_plain
from compactor.spark_tables.data_source_options import (
    CREATES,
    INSERTS,
    SOURCES,
    STATEMENT,
    WHERE,
    WITHIN,
    creation_text,
    sources_text,
)
from compactor.spark_tables.frame_sources import sources_in
from compactor.spark_tables.living_frames import session_of_query, watch_of
from compactor.spark_tables.messages import BeginStatement, Creation, Place, ReadersOf
from compactor.spark_tables.pushdown import quoted
from compactor.spark_tables.session import open_snapshot, register
from compactor.spark_tables.spark_plan import must_only_read
from compactor.spark_tables.spark_types import hive_types
from compactor.spark_tables.statement_control import ask_keeper, at_work
from compactor.statements import parsed_actions
from compactor.statements.spark_text import SparkText
from compactor.statements.statement import Statement
from compactor.statements.tokens import Token
from compactor.tables.sql.named_partitions import key_values
from compactor.tables.sql.run_changes import columns_of_values
from compactor.tables.sql.run_creations import answer_if_there, must_be_there_once
from compactor.tables.sql.run_statements import HANDLERS, checked
from compactor.tables.sql.sql_session import Session
from compactor.tables.writing.inserts import TARGET, values_of
from compactor.tables.writing.row_change import Kind

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_TABLE = "compactor_table"  #: stands for each table of a query while it is checked
#: Classes of the functions that Spark itself has
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
        database: the current one at the beginning.
        snapshot: one of ``snapshot``, under which queries and the queries of statements read. Without it a query has one of
            its own for all of its tables, which ends once no DataFrame needs it, and a statement that writes reads in its
            own transaction.
        time_zone: as for a write with ``hive_acid``.
        metastore, config: as for a read with ``hive_acid``.

    Raises:
        BadStatement: a statement is none of the list; nothing was done.
        NotSupported: one is not run; nothing was done.
        CompactorError: as ``compactor sql``.
        Exception: what Spark raises of a query or a write.
    """
    options = {"metastore": metastore, **({} if config is None else {"config": config})}
    statements = checked(text, has_spark=True)
    _must_be_harmless(spark, SparkText(text), statements)
    register(spark)
    with _Script(spark, text, options, database) as script:
        script.snapshot, script.time_zone = snapshot, time_zone
        *others, last = statements
        for statement in others:
            script.run(statement)
        return script.run(last)


def _must_be_harmless(spark: SparkSession, text: SparkText, statements: Sequence[Statement]) -> None:
    """Checks what Spark is to be given of all statements, before the first is done.

    Raises:
        NotSupported: something of it reaches code, files or another catalog.
        Exception: Spark does not understand a query.
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
    """Refuses a function that is none of Spark's and that the program has not registered in its session.

    Raises:
        NotSupported: it is such a function: of a catalog, or of a newer Spark.
    """
    name = quoted(call.value)
    if spark.catalog.functionExists(name):
        function = spark.catalog.getFunction(name)
        if function.isTemporary and not (function.className or "").startswith(_OF_SPARK):
            return
    raise NotSupported(
        f"statement: {call.place}: {call} is none of Spark's functions that are called here, and the program has not "
        "registered it in its session (spark.udf.register); put AS before a name with columns; nothing was done"
    )


class _Script:
    """One text in a session of Spark; the metastore is opened here once a statement needs it."""

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
            opened = open_deployment(self._options["metastore"], config_path=self._options.get("config"))
            self._session = Session(self._stack.enter_context(opened), self._database)
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
            case parsed_actions.Merge():
                return self._merge(statement, action)
        self._must_not_be_in_its_own_way(statement)
        answer = HANDLERS[type(action)](self.session, statement, action)
        return _frame(self._spark, list(answer.rows), answer.columns)

    def _query(
        self,
        query: parsed_actions.Query,
        within: str | None = None,
        before: str = "",
        where: str | None = None,
        **given: DataFrame,
    ) -> DataFrame:
        """Returns the query's DataFrame: Spark gets its text, with the DataFrames of its tables in place of their names.

        Args:
            within: the statement or change that reads it.
            before: text that comes before the query, with the names of DataFrames that are ``given``.
            where: the condition of a query that names one table once.
        """
        tables = _tables(query)
        fields = {name: f"table_{number}" for number, name in enumerate(tables)}
        written = before + self._spark_text.query(query, lambda name: f"{{{fields[name]}}}")
        if not tables and not given:
            return self._spark.sql(written.format())
        held = self._reading(within)
        is_own = not held  # a snapshot that ends with the DataFrame
        if is_own and len(tables) > 1:
            is_watched = watch_of(self._spark) is not None
            held = {"snapshot": open_snapshot(self._spark, self._options, is_of_frames=is_watched)}
        if where is not None:
            held[WHERE] = where
        frames = {field: self._read(name, **held) for name, field in fields.items()}
        if not is_own or (watch := watch_of(self._spark)) is None:
            return self._spark.sql(written, **given, **frames)
        session = session_of_query(self._spark)
        snapshots = {source.snapshot for frame in frames.values() for source in sources_in(frame.schema)}
        watch.watch(session, snapshots, self._options)
        return session.sql(written, **given, **frames)

    def _must_not_be_in_its_own_way(self, statement: Statement) -> None:
        """Refuses a statement that needs a table for itself while the program itself reads it.

        Raises:
            LockNotGranted: it does.
        """
        try:
            planned = planned_locks(self.session.site, statement, self.session.database)
        except CompactorError:  # which the statement says better
            return
        requests = [one.request for one in planned if one.request.type is LockType.EXCLUSIVE]
        for table in sorted({f"{request.database}.{request.table}" for request in requests if request.table}):
            if self._own_readers(table):
                gc.collect()  # DataFrames that only refer to each other are held by nobody
            if txns := self._own_readers(table):
                raise LockNotGranted(
                    f"{statement.name}: {table} is read by this program itself, in transaction {', '.join(map(str, txns))}: "
                    "a DataFrame or view that was loaded, or a snapshot that is open, holds it. Read within "
                    "compactor.spark_tables.snapshot, whose end lets go of all that was read in it"
                )

    def _own_readers(self, table: str) -> list[int]:
        """Returns the transactions in which this program reads a table, once it has let go of what it could."""
        if (watch := watch_of(self._spark)) is not None:
            watch.settle()
        txns: list[int] = json.loads(ask_keeper(self._spark, self._options, ReadersOf(place=Place(), table=table)))[
            "txns"
        ]
        return txns

    def _reading(self, within: str | None) -> dict[str, str]:
        """Returns the options of what a statement reads: under the snapshot of the text if there is one, else in its own
        transaction."""
        if self.snapshot is not None:
            return {"snapshot": self.snapshot}
        return {} if within is None else {WITHIN: within}

    @contextmanager
    def _statement(
        self, targets: Sequence[Name], into: parsed_actions.Target | None, *queries: parsed_actions.Query
    ) -> Iterator[str]:
        """Begins a statement that writes the rows of queries, and yields its name; it ends without a trace if the block
        raises."""
        tables = dict.fromkeys(self._full(name) for query in queries for name in _tables(query))
        request = BeginStatement(
            place=Place(),
            targets=tuple(map(self._full, targets)),
            overwrites=into is not None and into.overwrite,
            reads=() if self.snapshot is not None else tuple(tables),
        )
        name: str = json.loads(ask_keeper(self._spark, self._options, request))
        with at_work(self._spark, self._options, name):
            yield name

    def _read(self, name: Name, **options: str) -> DataFrame:
        return self._spark.read.format("hive_acid").options(table=self._full(name), **self._options, **options).load()

    def _table(self, name: Name, alias: str) -> AcidTable:
        found = AcidTable.for_name(self._spark, self._full(name), **self._options)
        return found.alias(alias)

    def _change(self, statement: Statement, action: parsed_actions.Update | parsed_actions.Delete) -> DataFrame:
        """Updates or deletes rows; raises as ``AcidTable`` does."""
        table = self._table(action.table, action.alias)
        condition = self._expression(action.condition)
        if action.nested is not None:
            views = {one.table: f"compactor_{uuid.uuid4().hex}" for one in action.nested.places}
            table = replace(table, reads=tuple((view, self._full(name)) for name, view in views.items()))
            condition = f"({self._spark_text.query(action.nested, views.__getitem__).format()})"
        if isinstance(action, parsed_actions.Delete):
            count = table.delete(condition).deleted
        else:
            columns = (column for column, _ in action.assignments)
            values = dict(zip(columns, map(self._text_of, action.values), strict=True))
            count = table.update(condition, values).updated
        return _frame(self._spark, [{"statement": statement.name, "table": table.name, "rows": count}], ())

    def _merge(self, statement: Statement, action: parsed_actions.Merge) -> DataFrame:
        """Merges a table or the rows of a query; raises as ``AcidTable.merge`` does.

        Raises:
            NotConforming: an INSERT has too few or too many values.
        """
        table = self._table(action.table, action.alias)
        merge = table.merge(self._source(action), self._text_of(action.on))
        for clause in action.clauses:
            condition = self._expression(clause.condition)
            values = map(self._text_of, clause.values)
            if isinstance(clause, parsed_actions.WhenNotMatched):
                insert = Clause(kind=Kind.INSERT, condition=condition, row=tuple(values), named=clause.columns)
                merge = replace(merge, clauses=(*merge.clauses, insert))
            elif clause.columns:
                merge = merge.when_matched_update(condition, dict(zip(clause.columns, values, strict=True)))
            else:
                merge = merge.when_matched_delete(condition)
        return _frame(self._spark, [{"statement": statement.name, "table": table.name, **asdict(merge.execute())}], ())

    def _source(self, action: parsed_actions.Merge) -> SourceQuery | DataFrame:
        """Returns the source of a merge: read in its transaction, or under the snapshot of the text."""

        def read(change: str | None) -> DataFrame:
            source = action.source
            frame = (
                self._read(source, **self._reading(change)) if isinstance(source, Name) else self._query(source, change)
            )
            return frame.alias(action.source_alias)

        if self.snapshot is not None:
            return read(None)
        names = [action.source] if isinstance(action.source, Name) else _tables(action.source)
        return SourceQuery(read=read, tables=tuple(map(self._full, names)))

    def _expression(self, span: parsed_actions.Span | None) -> str | None:
        return None if span is None else self._text_of(span)

    def _text_of(self, span: parsed_actions.Span) -> str:
        """Returns an expression that Spark reads as one, and to its end."""
        text = self._spark_text.expression(span)
        return text if is_plain(text) else f"({text})"

    def _insert(self, statement: Statement, query: parsed_actions.Query, into: parsed_actions.Target) -> DataFrame:
        """Writes the rows of a query.

        Raises:
            NotSupported: it overwrites a partition that the statement names: without rows nothing would be replaced.
            NotConforming: it has too few or too many columns.
        """
        mode = "overwrite" if into.overwrite else "append"
        with self._statement([into.table], into, query) as name:
            found = self.session.found(into.table)  # under the lock: its columns stay as they are
            if into.overwrite and key_values(found, into.partition):
                raise NotSupported(
                    f"{statement.name} at {statement.place}: PARTITION with values; give them in the query, as dynamic ones"
                )
            rows = _as_columns(found, into, self._query(query, name))
            options = {"table": str(found), STATEMENT: name, SOURCES: self._sources(found, query), **self._writing}
            rows.write.format("hive_acid").options(**options).mode(mode).save()
        return _frame(self._spark, [{"statement": statement.name, "table": str(found)}], ())

    def _insert_all(self, statement: Statement, action: parsed_actions.MultiInsert) -> DataFrame:
        """Writes the rows of several INSERTs of one query in one job and one transaction, in which all tables that it reads
        are seen.

        Raises:
            NotConforming: a SELECT has too few or too many columns.
            Refused: two INSERTs name one table.
        """
        names = [one.into.table for one in action.inserts]
        queries = [*([] if action.source is None else [action.source]), *(one.query for one in action.inserts)]
        with self._statement(names, None, *queries) as name:
            targets = [self.session.found(table) for table in names]
            every = self._rows_of_all(action, targets, name)
            tables = json.dumps([str(target) for target in targets])
            options = {INSERTS: tables, STATEMENT: name, **self._writing}
            every.write.format("hive_acid").options(**options).mode("append").save()
        return _frame(self._spark, [{"statement": statement.name, "table": str(target)} for target in targets], ())

    def _rows_of_all(self, action: parsed_actions.MultiInsert, targets: Sequence[Table], within: str) -> DataFrame:
        """Returns the rows of several INSERTs as those of one DataFrame."""
        from pyspark.sql.functions import lit, struct

        source: dict[str, DataFrame] = {}
        before = ""
        if action.source is not None:
            source = {"source": stored(self._query(action.source, within)).drop(SOURCE_ROW)}
            before = f"FROM {{source}} AS {quoted(action.alias)} "
        every: DataFrame | None = None
        for number, (one, target) in enumerate(zip(action.inserts, targets, strict=True)):
            rows = _as_columns(target, one.into, self._query(one.query, within, before, **source))
            own = rows.select(lit(number).alias(TARGET), struct("*").alias(values_of(number)))
            every = own if every is None else every.unionByName(own, allowMissingColumns=True)
        assert every is not None
        return every

    def _create(self, statement: Statement, action: parsed_actions.CreateTableAs) -> DataFrame:
        """Creates a table with the rows of a query.

        Raises:
            NotConforming: a column of the query is there twice, or has no name of its own.
            NotSupported: one has a type that Hive has no equal of.
            Refused: there is a table of this name; or the metastore is Hive's.
        """
        there = answer_if_there(self.session, statement, action)
        if there is not None:
            return _frame(self._spark, list(there.rows), there.columns)
        table = self._full(action.table)
        with self._statement([], None, action.query) as name:
            self._write_new(table, action, self._query(action.query, name), name)
        return _frame(self._spark, [{"statement": statement.name, "table": table, "created": True}], ())

    def _write_new(self, name: str, action: parsed_actions.CreateTableAs, rows: DataFrame, statement: str) -> None:
        """Writes the rows with which a table is created."""
        columns = hive_types(name, rows.schema, has_time_zone=self.time_zone is not None)
        must_be_there_once(name, [column for column, _ in columns])
        wanted = Creation(
            columns=columns,
            partitioned_by=action.partitioned_by,
            clustered_by=action.clustered_by,
            buckets=action.buckets,
            location=action.location,
            properties=action.properties,
        )
        options = {"table": name, CREATES: creation_text(wanted), STATEMENT: statement, **self._writing}
        rows.write.format("hive_acid").options(**options).mode("append").save()

    def _sources(self, target: Table, query: parsed_actions.Query) -> str:
        """Returns, as the option ``sources``, what a statement reads of its own target under the snapshot of the text; all
        else it reads in its own transaction."""
        names = [name for name in _tables(query) if self._full(name) == str(target)]
        if self.snapshot is None or not names:
            return sources_text([])
        return sources_text(sources_in(self._read(names[0], snapshot=self.snapshot).schema))

    @property
    def _writing(self) -> dict[str, str]:
        """The options of every write."""
        return {**self._options, **({} if self.time_zone is None else {"time_zone": self.time_zone})}

    def _full(self, name: Name) -> str:
        current = self._database if self._session is None else self._session.database
        return f"{name.database or current}.{name.table}"


def _tables(query: parsed_actions.Query) -> list[Name]:
    """Returns the tables that a query names, each once."""
    return list(dict.fromkeys(place.table for place in query.places))


def _as_columns(table: Table, into: parsed_actions.Target, rows: DataFrame) -> DataFrame:
    """Returns the rows of a query in the columns that an INSERT names, with the values of its PARTITION.

    Raises:
        NotConforming: it has too few or too many columns.
    """
    from pyspark.sql.functions import lit

    static = key_values(table, into.partition)
    names = [column.name for column in columns_of_values(table, into, static)]
    if len(rows.columns) != len(names):
        raise NotConforming(
            f"{table}: the query has {len(rows.columns)} columns; wanted are {len(names)}, for {', '.join(names)}"
        )
    rows = rows.toDF(*names)
    for key, value in static.items():
        rows = rows.withColumn(key, lit(value))
    return rows


def _frame(spark: SparkSession, rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> DataFrame:
    """Returns rows as a DataFrame; lists and structures are JSON."""
    names = list(dict.fromkeys([*(name for row in rows for name in row), *columns]))
    kinds = {name: _kind([row.get(name) for row in rows]) for name in names}
    schema = ", ".join(f"{quoted(name)} {kind}" for name, kind in kinds.items())
    values = [tuple(_plain(row.get(name), kinds[name]) for name in names) for row in rows]
    return spark.createDataFrame(values, schema)


def _kind(values: Sequence[object]) -> str:
    """Returns Spark's type of a column."""
    there = {type(value) for value in values if value is not None}
    return {frozenset((bool,)): "boolean", frozenset((int,)): "bigint"}.get(frozenset(there), "string")


def _plain(value: Any, kind: str) -> Any:
    if value is None or kind != "string" or isinstance(value, str):
        return value
    return json.dumps(value, default=str)
