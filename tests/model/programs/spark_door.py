"""The door of Spark: DataFrames, ``AcidTable``, ``sql`` and streams, in turn. A module of its own, since it needs Spark."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from compactor.acid import txn_states
from compactor.site.site import Site
from compactor.spark_tables import AcidTable, snapshot, sql
from compactor.spark_tables.living_frames import frame_watch
from compactor.spark_tables.statement_control import find_own_error
from tests.model.programs.doors import DATABASE, Change, PythonDoor, arrow, definition
from tests.model.programs.plain_tables import (
    COMPARED,
    KEY,
    Condition,
    PlainTable,
    Row,
    fields_of,
    in_order,
    literal,
    shown,
)
from tests.support.patience import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_IS_NEW = "is_new"  #: a column of an upsert's source: false where a row is to take the place of those with its key
_MICROSECOND = 1000


class SparkDoor:
    """``compactor.spark_tables``. Several statements in one transaction are those of a Python program beside it.

    Spark finds other rows than Hive where it compares floating-point numbers and blanks, so the conditions of statements
    name no such column; those of reads are in the option ``filter``, which is not Spark's.
    """

    stops = False
    reads_itself = True
    compared = tuple(kind for kind in COMPARED if kind not in ("double", "char(4)", "timestamp"))

    def __init__(self, site: Site, folder: Path, spark: SparkSession) -> None:
        self.site, self.folder, self.spark = site, folder, spark
        self.config = str(folder / "compactor.toml")
        self.python = PythonDoor(site, folder)
        self._numbers = itertools.count()
        self._ways: dict[str, Iterator[Any]] = {
            "append": itertools.cycle((self._write, self._insert)),
            "stream": itertools.cycle((self._write_stream,)),
            "overwrite": itertools.cycle((self._write, self._insert)),
            "delete": itertools.cycle((self._delete_rows, self._delete_by_sql)),
            "update": itertools.cycle((self._update_rows, self._update_by_sql)),
            "upsert": itertools.cycle((self._merge,)),
            "own": itertools.cycle((self._own_rows, self._own_rows_with, self._own_rows_joined)),
            "scan": itertools.cycle((self._read, self._select, self._read, self._read_stream)),
        }

    def fitted(self, table: PlainTable, rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(
            {name: _in_microseconds(row.get(name), kind) for name, kind in table.columns.items()} for row in rows
        )

    def create(self, name: str, table: PlainTable) -> None:
        self._sql(definition(name, table))

    def change(self, change: Change, table: PlainTable) -> int | None:
        way: Callable[[Change, PlainTable], int | None] = next(self._ways[change.kind])
        if change.own is not None:
            way = self._merge_itself if change.kind == "upsert" else self._insert_from_itself
        with _typed():
            return way(change, table)

    def transaction(
        self, changes: Sequence[Change], tables: Sequence[PlainTable], *, commits: bool
    ) -> list[int | None]:
        return self.python.transaction(changes, tables, commits=commits)

    def scan(self, name: str, table: PlainTable, where: Condition, names: Sequence[str]) -> list[tuple[Any, ...]]:
        way = self._read if where.text else next(self._ways["scan"])
        with _typed():
            rows: list[Row] = way(name, where, names).to_pylist()
        return in_order(tuple(_shown(row[name], table.columns[name]) for name in names) for row in rows)

    def count(self, name: str, where: Condition) -> int:
        with _typed(), snapshot(self.spark, config=self.config) as held:
            return self._frame(name, where, snapshot=held).count()

    # -- ways to read

    def _frame(self, name: str, where: Condition, **options: str) -> DataFrame:
        return self._options(self.spark.read.format("hive_acid"), name, where, options).load()

    def _options(self, read: Any, name: str, where: Condition, options: dict[str, str]) -> Any:
        given = {"table": f"{DATABASE}.{name}", "config": self.config, **options}
        return read.options(**given, **({"filter": where.text} if where.text else {}))

    def _read(self, name: str, where: Condition, names: Sequence[str]) -> pa.Table:
        with snapshot(self.spark, config=self.config) as held:
            return self._frame(name, where, snapshot=held, columns=",".join(names)).toArrow()

    def _select(self, name: str, where: Condition, names: Sequence[str]) -> pa.Table:
        return self._sql(f"SELECT {', '.join(names)} FROM {name}")

    def _read_stream(self, name: str, where: Condition, names: Sequence[str]) -> pa.Table:
        number = next(self._numbers)
        read = self._options(self.spark.readStream.format("hive_acid"), name, where, {"columns": ",".join(names)})
        write = read.load().writeStream.format("memory").queryName(f"stream_{number}")
        write = write.option("checkpointLocation", str(self.folder / f"checkpoint_{number}"))
        write.trigger(availableNow=True).start().awaitTermination()
        rows = self.spark.table(f"stream_{number}").toArrow()
        self.spark.catalog.dropTempView(f"stream_{number}")
        # Spark kills the process that has read, and the keeper looks every second whether it is there
        until("the last batch's snapshot is let go", lambda: not self._is_held())
        return rows

    def _is_held(self) -> bool:
        unfinished = self.site.metastore.transactions.unfinished()
        agent = f"compactor-{self.spark.sparkContext.applicationId}"
        return any(txn.state == txn_states.OPEN and (txn.agent or "").startswith(agent) for txn in unfinished)

    # -- ways to change

    def _write(self, change: Change, table: PlainTable) -> int:
        mode = "append" if change.kind == "append" else "overwrite"
        write = self._rows(table, change.rows).write.format("hive_acid")
        write.options(table=f"{DATABASE}.{change.name}", config=self.config).mode(mode).save()
        return len(change.rows)

    def _insert(self, change: Change, table: PlainTable) -> int:
        if not change.rows:
            return self._write(change, table)
        into = "INTO" if change.kind == "append" else "OVERWRITE TABLE"
        rows = " UNION ALL ".join(
            "SELECT " + ", ".join(f"{_expression(row[name], kind)} AS {name}" for name, kind in table.columns.items())
            for row in change.rows
        )
        self._sql(f"INSERT {into} {change.name} ({', '.join(table.columns)}) {rows}")
        return len(change.rows)

    def _write_stream(self, change: Change, table: PlainTable) -> int:
        number = next(self._numbers)
        rows = self._rows(table, change.rows)
        rows.write.parquet(str(self.folder / f"arriving_{number}"))
        arriving = self.spark.readStream.schema(rows.schema).parquet(str(self.folder / f"arriving_{number}"))
        write = arriving.writeStream.format("hive_acid").options(
            table=f"{DATABASE}.{change.name}",
            config=self.config,
            stream=f"stream_{number}",
            checkpointLocation=str(self.folder / f"checkpoint_{number}"),
        )
        write.trigger(availableNow=True).start().awaitTermination()
        return len(change.rows)

    def _delete_rows(self, change: Change, table: PlainTable) -> int:
        return self._acid_table(change.name).delete(change.where.text or None).deleted

    def _delete_by_sql(self, change: Change, table: PlainTable) -> int:
        return self._count(f"DELETE FROM {change.name}{_where(change.where)}")

    def _update_rows(self, change: Change, table: PlainTable) -> int:
        return self._acid_table(change.name).update(change.where.text or None, _values(change, table)).updated

    def _update_by_sql(self, change: Change, table: PlainTable) -> int:
        values = ", ".join(f"{name} = {value}" for name, value in _values(change, table).items())
        return self._count(f"UPDATE {change.name} SET {values}{_where(change.where)}")

    def _merge(self, change: Change, table: PlainTable) -> None:
        """One merge: each row comes twice, once for those that it takes the place of, and once for itself."""
        from pyspark.sql.functions import lit

        rows = self._rows(table, change.rows)
        source = rows.withColumn(_IS_NEW, lit(False)).union(rows.withColumn(_IS_NEW, lit(True))).alias("s")
        merge = self._acid_table(change.name).alias("t").merge(source, f"t.{KEY} = s.{KEY} AND NOT s.{_IS_NEW}")
        values = {name: f"s.{name}" for name in table.columns}
        merge.when_matched_delete().when_not_matched_insert(f"s.{_IS_NEW}", values).execute()

    def _insert_from_itself(self, change: Change, table: PlainTable) -> None:
        into = "INTO" if change.kind == "append" else "OVERWRITE TABLE"
        statement = f"INSERT {into} {change.name} ({', '.join(table.columns)})"
        self._sql(next(self._ways["own"])(change, ", ".join(table.columns), statement))

    def _own_rows(self, change: Change, columns: str, statement: str) -> str:
        return f"{statement} SELECT {columns} FROM {change.name}{_where(_own(change))}"

    def _own_rows_with(self, change: Change, columns: str, statement: str) -> str:
        rows = f"SELECT * FROM {change.name}{_where(_own(change))}"
        return f"WITH q AS ({rows}) {statement} SELECT {columns} FROM q"

    def _own_rows_joined(self, change: Change, columns: str, statement: str) -> str:
        rows = f"SELECT * FROM {change.name}{_where(_own(change))}"
        keys = f"SELECT DISTINCT {KEY} AS k FROM {change.name}"
        return f"{statement} SELECT {columns} FROM ({rows}) a JOIN ({keys}) b ON a.{KEY} <=> b.k"

    def _merge_itself(self, change: Change, table: PlainTable) -> None:
        """As ``_merge``, in SQL."""
        rows = " UNION ALL ".join(
            f"SELECT *, {is_new} AS {_IS_NEW} FROM {change.name}{_where(_own(change))}" for is_new in ("false", "true")
        )
        self._sql(
            f"MERGE INTO {change.name} AS t USING ({rows}) AS s ON t.{KEY} = s.{KEY} AND NOT s.{_IS_NEW} "
            f"WHEN MATCHED THEN DELETE WHEN NOT MATCHED AND s.{_IS_NEW} THEN INSERT ({', '.join(table.columns)}) "
            f"VALUES ({', '.join(f's.{name}' for name in table.columns)})"
        )

    def _acid_table(self, name: str) -> AcidTable:
        return AcidTable.for_name(self.spark, f"{DATABASE}.{name}", config=self.config)

    def _rows(self, table: PlainTable, rows: Sequence[Row]) -> DataFrame:
        sent = arrow(table, rows)
        for place, field in enumerate(sent.schema):
            if table.columns[field.name] == "timestamp":
                micros = [
                    None if at is None else at["seconds"] * 10**6 + at["nanos"] // _MICROSECOND
                    for at in sent[place].to_pylist()
                ]
                sent = sent.set_column(place, field.name, pa.array(micros, pa.int64()).cast(pa.timestamp("us")))
        return self.spark.createDataFrame(sent, from_arrow_schema(sent.schema, prefer_timestamp_ntz=True))

    def _count(self, text: str) -> int:
        return int(self._sql(text)["rows"][0].as_py())

    def _sql(self, text: str) -> pa.Table:
        """Returns the rows of a statement, and lets go of what its DataFrame held."""
        with _typed():
            try:
                return sql(self.spark, text, config=self.config).toArrow()
            finally:
                gc.collect()
                frame_watch(self.spark).settle()


@contextmanager
def _typed() -> Iterator[None]:
    """Raises this package's own error in place of what Spark makes of it."""
    try:
        yield
    except Exception as error:
        raise find_own_error(error) or error from error


def _own(change: Change) -> Condition:
    assert change.own is not None
    return change.own


def _where(where: Condition) -> str:
    return f" WHERE {where.text}" if where.text else ""


def _values(change: Change, table: PlainTable) -> dict[str, str]:
    return {name: _expression(value, table.columns[name]) for name, value in change.values.items()}


def _in_microseconds(value: Any, kind: str) -> Any:
    """Returns a value whose timestamps, at any depth of structs, have the digits that Spark has."""
    if value is None:
        return None
    if kind == "timestamp":
        return value[0], value[1] // _MICROSECOND * _MICROSECOND
    if kind.startswith("struct<"):
        kinds = dict(field.split(":", 1) for field in fields_of(kind[len("struct<") : -1]))
        return {field: _in_microseconds(value[field], of) for field, of in kinds.items()}
    return value


def _shown(value: Any, kind: str) -> Any:
    return shown(str(value) if kind == "timestamp" and value is not None else value, kind)


def _expression(value: Any, kind: str) -> str:
    """Returns a value as Spark's SQL has it, of the column's type."""
    name, _, inner = kind.partition("<")
    inner = inner.removesuffix(">")
    if value is None:
        text = "NULL"
    elif name in ("double", "float"):
        text = f"'{value!r}'"
    elif name == "binary":
        text = f"X'{value.hex()}'"
    elif name == "timestamp":
        text = literal(value, kind).replace("TIMESTAMP", "TIMESTAMP_NTZ")[:-4] + "'"
    elif name == "array":
        text = f"array({', '.join(_expression(item, inner) for item in value)})"
    elif name == "map":
        key, _, item = inner.partition(",")
        text = f"map({', '.join(f'{_expression(k, key)}, {_expression(v, item)}' for k, v in value.items())})"
    elif name == "struct":
        kinds = dict(field.split(":", 1) for field in fields_of(inner))
        text = (
            f"named_struct({', '.join(f'{field!r}, {_expression(value[field], of)}' for field, of in kinds.items())})"
        )
    else:
        text = literal(value, kind)
    of_spark = {"timestamp": "timestamp_ntz", "char(4)": "string", "varchar(4)": "string"}.get(kind, kind)
    return f"CAST({text} AS {of_spark})"
