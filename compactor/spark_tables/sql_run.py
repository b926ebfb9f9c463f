"""SQL in a session of Spark: queries are Spark's, over DataFrames of ``hive_acid``; every other statement is done as without
it, where the program runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from compactor.deployment import open_deployment
from compactor.errors import NotConforming, NotSupported
from compactor.locking.accesses import Name
from compactor.spark_tables.session import open_snapshot, register
from compactor.sql.changes import columns_of_values
from compactor.sql.partitions import key_values
from compactor.sql.run import HANDLERS, checked
from compactor.sql.session import Session
from compactor.statements import actions
from compactor.statements.statement import Statement

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
        if isinstance(action, actions.Select) and action.query is not None and not in_transaction:
            return self._query(action.query)
        if isinstance(action, actions.NeedsSpark):
            return self._query(action.query) if action.into is None else self._insert(statement, action)
        answer = HANDLERS[type(action)](self.session, statement, action)
        return _frame(self._spark, list(answer.rows), answer.columns)

    def _query(self, query: actions.Query) -> DataFrame:
        """Returns the query's DataFrame: Spark gets its text, with the DataFrames of its tables in place of their names."""
        tables = list(dict.fromkeys(place.table for place in query.places))
        fields = {name: f"table_{number}" for number, name in enumerate(tables)}
        written = query.rewritten(self._text, lambda name: f"{{{fields[name]}}}")
        if not tables:
            return self._spark.sql(written.format())
        snapshot = self.snapshot
        if snapshot is None and len(tables) > 1:
            snapshot = open_snapshot(self._spark, self._options)
        held = {} if snapshot is None else {"snapshot": snapshot}
        frames = {
            field: self._spark.read.format("hive_acid").options(table=self._full(name), **self._options, **held).load()
            for name, field in fields.items()
        }
        return self._spark.sql(written, **frames)

    def _insert(self, statement: Statement, action: actions.NeedsSpark) -> DataFrame:
        """Writes the rows of a query.

        Raises:
            NotSupported: it overwrites a partition that the statement names: without rows nothing would be replaced.
            NotConforming: it has too few or too many columns.
        """
        from pyspark.sql.functions import lit

        assert action.into is not None
        into = action.into
        found = self.session.found(into.table)
        static = key_values(found, into.partition)
        if into.overwrite and static:
            raise NotSupported(
                f"{statement.name} at {statement.place}: PARTITION with values; give them in the query, as dynamic ones"
            )
        names = [column.name for column in columns_of_values(found, into, static)]
        rows = self._query(action.query)
        if len(rows.columns) != len(names):
            raise NotConforming(
                f"{found}: the query has {len(rows.columns)} columns; wanted are {len(names)}, for {', '.join(names)}"
            )
        rows = rows.toDF(*names)
        for key, value in static.items():
            rows = rows.withColumn(key, lit(value))
        options = {**self._options, **({} if self.time_zone is None else {"time_zone": self.time_zone})}
        mode = "overwrite" if into.overwrite else "append"
        rows.write.format("hive_acid").options(table=str(found), **options).mode(mode).save()
        return _frame(self._spark, [{"statement": statement.name, "table": str(found)}], ())

    def _full(self, name: Name) -> str:
        current = self._database if self._session is None else self._session.database
        return f"{name.database or current}.{name.table}"


def _frame(spark: SparkSession, rows: Sequence[Mapping[str, object]], columns: Sequence[str]) -> DataFrame:
    """Returns rows as a DataFrame; lists and structures are JSON."""
    names = list(dict.fromkeys([*(name for row in rows for name in row), *columns]))
    kinds = {name: _kind([row.get(name) for row in rows]) for name in names}
    schema = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in kinds.items())
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
