"""SQL in a session of Spark: queries and changes of rows are Spark's, over DataFrames of ``hive_acid``; every other
statement is done as without it, where the program runs."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from compactor.deployment import open_deployment
from compactor.errors import NotConforming, NotSupported
from compactor.locking.accesses import Name
from compactor.metastore.catalog.values import Table
from compactor.spark_tables.acid_table import AcidTable
from compactor.spark_tables.changed_frames import SOURCE_ROW, stored
from compactor.spark_tables.clauses import is_plain
from compactor.spark_tables.messages import Creation
from compactor.spark_tables.options import CREATES, INSERTS, WHERE, creation_text
from compactor.spark_tables.pushdown import quoted
from compactor.spark_tables.session import open_snapshot, register
from compactor.spark_tables.spark_types import hive_types
from compactor.sql.changes import columns_of_values
from compactor.sql.creations import answer_if_there, must_be_there_once
from compactor.sql.partitions import key_values
from compactor.sql.run import HANDLERS, checked
from compactor.sql.session import Session
from compactor.statements import actions
from compactor.statements.statement import Statement
from compactor.tables.writing.inserts import TARGET, values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
        snapshot: one of ``snapshot``, for queries. Without it a query has one of its own for all of its tables, which ends
            with the application or at compactor.read.max.age.
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
    register(spark)
    with _Script(spark, text, options, database) as script:
        script.snapshot, script.time_zone = snapshot, time_zone
        for statement in statements:
            frame = script.run(statement)
    return frame


class _Script:
    """One text in a session of Spark; the metastore is opened here once a statement needs it."""

    def __init__(self, spark: SparkSession, text: str, options: Mapping[str, str], database: str) -> None:
        self._spark, self._text, self._options, self._database = spark, text, options, database
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
            case actions.NeedsSpark(query=query, into=into):
                return self._query(query) if into is None else self._insert(statement, query, into)
            case actions.Select(query=query) if query is not None and not in_transaction:
                return self._query(query, where=action.where if "\\" not in self._text else None)
            case actions.Update() | actions.Delete() if not in_transaction:
                return self._change(statement, action)
            case actions.MultiInsert():
                return self._insert_all(statement, action)
            case actions.CreateTableAs():
                return self._create(statement, action)
            case actions.Merge():
                return self._merge(statement, action)
        answer = HANDLERS[type(action)](self.session, statement, action)
        return _frame(self._spark, list(answer.rows), answer.columns)

    def _query(
        self,
        query: actions.Query,
        snapshot: str | None = None,
        before: str = "",
        where: str | None = None,
        **given: DataFrame,
    ) -> DataFrame:
        """Returns the query's DataFrame: Spark gets its text, with the DataFrames of its tables in place of their names.

        Args:
            snapshot: of its tables; that of the text, or one of its own, without it.
            before: text that comes before the query, with the names of DataFrames that are ``given``.
            where: the condition of a query that names one table once.
        """
        tables = list(dict.fromkeys(place.table for place in query.places))
        fields = {name: f"table_{number}" for number, name in enumerate(tables)}
        written = before + query.rewritten(self._text, lambda name: f"{{{fields[name]}}}")
        if not tables and not given:
            return self._spark.sql(written.format())
        snapshot = snapshot or self.snapshot
        if snapshot is None and len(tables) > 1:
            snapshot = open_snapshot(self._spark, self._options)
        held = {} if snapshot is None else {"snapshot": snapshot}
        if where is not None:
            held[WHERE] = where
        frames = {field: self._read(name, **held) for name, field in fields.items()}
        return self._spark.sql(written, **given, **frames)

    def _read(self, name: Name, **options: str) -> DataFrame:
        return self._spark.read.format("hive_acid").options(table=self._full(name), **self._options, **options).load()

    def _table(self, name: Name, alias: str) -> AcidTable:
        found = AcidTable.for_name(self._spark, self._full(name), **self._options)
        return found.alias(alias)

    def _change(self, statement: Statement, action: actions.Update | actions.Delete) -> DataFrame:
        """Updates or deletes rows; raises as ``AcidTable`` does."""
        table = self._table(action.table, action.alias)
        condition = self._expression(action.condition)
        if action.nested is not None:
            views = {one.table: f"compactor_{uuid.uuid4().hex}" for one in action.nested.places}
            table = replace(table, reads=tuple((view, self._full(name)) for name, view in views.items()))
            condition = f"({action.nested.rewritten(self._text, views.__getitem__).format()})"
        if isinstance(action, actions.Delete):
            count = table.delete(condition).deleted
        else:
            columns = (column for column, _ in action.assignments)
            values = dict(zip(columns, map(self._text_of, action.values), strict=True))
            count = table.update(condition, values).updated
        return _frame(self._spark, [{"statement": statement.name, "table": table.name, "rows": count}], ())

    def _merge(self, statement: Statement, action: actions.Merge) -> DataFrame:
        """Merges a table or the rows of a query; raises as ``AcidTable.merge`` does.

        Raises:
            NotConforming: an INSERT has too few or too many values.
        """
        table = self._table(action.table, action.alias)
        source = (self._read(action.source) if isinstance(action.source, Name) else self._query(action.source)).alias(
            action.source_alias
        )
        merge = table.merge(source, self._text_of(action.on))
        for clause in action.clauses:
            condition = self._expression(clause.condition)
            values = map(self._text_of, clause.values)
            if isinstance(clause, actions.WhenNotMatched):
                columns = self._inserted(action.table, clause)
                merge = merge.when_not_matched_insert(condition, dict(zip(columns, values, strict=True)))
            elif clause.columns:
                merge = merge.when_matched_update(condition, dict(zip(clause.columns, values, strict=True)))
            else:
                merge = merge.when_matched_delete(condition)
        return _frame(self._spark, [{"statement": statement.name, "table": table.name, **asdict(merge.execute())}], ())

    def _inserted(self, table: Name, clause: actions.WhenNotMatched) -> list[str]:
        """Returns the columns of the values of an INSERT."""
        found = self.session.found(table)
        names = [one.name for one in columns_of_values(found, actions.Target(table=table, columns=clause.columns), {})]
        if len(names) != len(clause.values):
            raise NotConforming(
                f"{found}: a row has {len(clause.values)} values; wanted are {len(names)}, for {', '.join(names)}"
            )
        return names

    def _expression(self, span: actions.Span | None) -> str | None:
        return None if span is None else self._text_of(span)

    def _text_of(self, span: actions.Span) -> str:
        """Returns an expression that Spark reads as one, and to its end."""
        text = self._text[slice(*span)]
        return text if is_plain(text) else f"({text})"

    def _insert(self, statement: Statement, query: actions.Query, into: actions.Target) -> DataFrame:
        """Writes the rows of a query.

        Raises:
            NotSupported: it overwrites a partition that the statement names: without rows nothing would be replaced.
            NotConforming: it has too few or too many columns.
        """
        found = self.session.found(into.table)
        if into.overwrite and key_values(found, into.partition):
            raise NotSupported(
                f"{statement.name} at {statement.place}: PARTITION with values; give them in the query, as dynamic ones"
            )
        rows = _as_columns(found, into, self._query(query))
        mode = "overwrite" if into.overwrite else "append"
        rows.write.format("hive_acid").options(table=str(found), **self._writing).mode(mode).save()
        return _frame(self._spark, [{"statement": statement.name, "table": str(found)}], ())

    def _insert_all(self, statement: Statement, action: actions.MultiInsert) -> DataFrame:
        """Writes the rows of several INSERTs of one query in one job and one transaction; all tables that it reads are seen
        under one snapshot.

        Raises:
            NotConforming: a SELECT has too few or too many columns.
            Refused: two INSERTs name one table.
        """
        from pyspark.sql.functions import lit, struct

        targets = [self.session.found(one.into.table) for one in action.inserts]
        snapshot = self.snapshot or open_snapshot(self._spark, self._options)
        source: dict[str, DataFrame] = {}
        before = ""
        if action.source is not None:
            source = {"source": stored(self._query(action.source, snapshot)).drop(SOURCE_ROW)}
            before = f"FROM {{source}} AS {quoted(action.alias)} "
        every: DataFrame | None = None
        for number, (one, target) in enumerate(zip(action.inserts, targets, strict=True)):
            rows = _as_columns(target, one.into, self._query(one.query, snapshot, before, **source))
            own = rows.select(lit(number).alias(TARGET), struct("*").alias(values_of(number)))
            every = own if every is None else every.unionByName(own, allowMissingColumns=True)
        assert every is not None
        tables = json.dumps([str(target) for target in targets])
        every.write.format("hive_acid").options(**{INSERTS: tables}, **self._writing).mode("append").save()
        return _frame(self._spark, [{"statement": statement.name, "table": str(target)} for target in targets], ())

    def _create(self, statement: Statement, action: actions.CreateTableAs) -> DataFrame:
        """Creates a table with the rows of a query.

        Raises:
            NotConforming: a column of the query is there twice, or has no name of its own.
            NotSupported: one has a type that Hive has no equal of.
            Refused: there is a table of this name; or the metastore is Hive's.
        """
        there = answer_if_there(self.session, statement, action)
        if there is not None:
            return _frame(self._spark, list(there.rows), there.columns)
        name, rows = self._full(action.table), self._query(action.query)
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
        options = {"table": name, CREATES: creation_text(wanted), **self._writing}
        rows.write.format("hive_acid").options(**options).mode("append").save()
        return _frame(self._spark, [{"statement": statement.name, "table": name, "created": True}], ())

    @property
    def _writing(self) -> dict[str, str]:
        """The options of every write."""
        return {**self._options, **({} if self.time_zone is None else {"time_zone": self.time_zone})}

    def _full(self, name: Name) -> str:
        current = self._database if self._session is None else self._session.database
        return f"{name.database or current}.{name.table}"


def _as_columns(table: Table, into: actions.Target, rows: DataFrame) -> DataFrame:
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
