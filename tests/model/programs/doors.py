"""The doors through which the same histories go: ``compactor.tables`` and ``compactor sql``; ``spark_door`` has Spark's.

Another door is another ``Door``: what it cannot express, ``fitted`` takes out of the rows before the model sees them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from compactor.site.site import Site
from compactor.tables.sql.run_statements import check_text, run
from compactor.tables.store import Store
from compactor.tables.table import Table
from tests.model.programs.plain_tables import (
    COMPARED,
    EVERYTHING,
    KEY,
    PARTITION,
    Condition,
    PlainTable,
    Row,
    fields_of,
    in_order,
    literal,
    shown,
)

DATABASE = "default"
_SCALARS: dict[str, pa.DataType] = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "boolean": pa.bool_(),
    "double": pa.float64(),
    "float": pa.float32(),
    "decimal(9,2)": pa.decimal128(9, 2),
    "string": pa.string(),
    "varchar(4)": pa.string(),
    "char(4)": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())]),
}
_ARROW = _SCALARS | {
    "array<int>": pa.list_(pa.int32()),
    "map<string,int>": pa.map_(pa.string(), pa.int32()),
    "struct<city:string,name:string>": pa.struct([("city", pa.string()), ("name", pa.string())]),
    "decimal(38,10)": pa.decimal128(38, 10),
    "array<array<string>>": pa.list_(pa.list_(pa.string())),
    "struct<m:map<string,int>,t:timestamp>": pa.struct(
        [("m", pa.map_(pa.string(), pa.int32())), ("t", _SCALARS["timestamp"])]
    ),
    "array<struct<n:decimal(9,2),d:date>>": pa.list_(pa.struct([("n", pa.decimal128(9, 2)), ("d", pa.date32())])),
}


@dataclass(frozen=True, slots=True)
class Change:
    """A statement that writes: append, stream, overwrite, delete, update or upsert.

    ``own`` selects the table's own rows, which an append, an overwrite or an upsert then writes in place of ``rows``.
    """

    kind: str
    name: str
    rows: tuple[Row, ...] = ()
    where: Condition = EVERYTHING
    values: dict[str, Any] = field(default_factory=dict)
    own: Condition | None = None

    def apply(self, table: PlainTable) -> int:
        """Does it in the model, and returns the number of rows as the product tells it."""
        rows = self.rows if self.own is None else [dict(row) for row in table.select(self.own)]
        match self.kind:
            case "append" | "stream":
                return table.append(rows)
            case "overwrite":
                return table.overwrite(rows)
            case "delete":
                return table.delete(self.where)
            case "update":
                return table.update(self.values, self.where)
        return table.upsert(rows)


class Door(Protocol):
    """A way to the tables of a site.

    Attributes:
        stops: its statements stop at their steps in a pair; those of other processes do not.
        reads_itself: a statement can write rows of the table that it reads.
        compared: the types of the columns that conditions of its changes may name.
    """

    stops: bool
    reads_itself: bool
    compared: Sequence[str]

    def fitted(self, table: PlainTable, rows: Sequence[Row]) -> tuple[Row, ...]:
        """Returns rows of which the door can write every value."""

    def create(self, name: str, table: PlainTable) -> None: ...

    def change(self, change: Change, table: PlainTable) -> int | None:
        """Does one statement, and returns the number of rows as ``Change.apply`` does; None where the door does not tell."""

    def transaction(
        self, changes: Sequence[Change], tables: Sequence[PlainTable], *, commits: bool
    ) -> list[int | None]:
        """Does several statements in one transaction, which commits or is rolled back."""

    def scan(self, name: str, table: PlainTable, where: Condition, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """Returns what the columns ``names`` of the rows show, in order."""

    def count(self, name: str, where: Condition) -> int: ...


class RolledBack(Exception):
    """Ends a transaction of Python."""


class PythonDoor:
    """``compactor.tables``."""

    stops = reads_itself = True
    compared = COMPARED

    def __init__(self, site: Site, folder: Path) -> None:
        self.store = Store(site)

    def fitted(self, table: PlainTable, rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple(rows)

    def create(self, name: str, table: PlainTable) -> None:
        self.store.create_table(
            f"{DATABASE}.{name}",
            table.columns,
            partitioned_by=[PARTITION] if table.is_partitioned else (),
            clustered_by=([KEY], table.buckets) if table.buckets else None,
        )

    def change(self, change: Change, table: PlainTable) -> int:
        return self.act(self.store.load_table(f"{DATABASE}.{change.name}"), change, table)

    def act(self, loaded: Table, change: Change, table: PlainTable) -> int:
        where = change.where.text or None
        if change.own is not None:
            own = loaded.scan(change.own.text or None)
            match change.kind:
                case "append":
                    return loaded.append(own)
                case "overwrite":
                    return loaded.overwrite(own)
            return loaded.upsert(own, [KEY]).updated
        match change.kind:
            case "append":
                return loaded.append(arrow(table, change.rows))
            case "stream":
                with loaded.stream() as stream:
                    for row in change.rows:
                        stream.write(arrow(table, [row]))
                    return stream.commit()
            case "overwrite":
                return loaded.overwrite(arrow(table, change.rows))
            case "delete":
                return loaded.delete(where)
            case "update":
                values = {name: literal(value, table.columns[name]) for name, value in change.values.items()}
                return loaded.update(values, where)
        return loaded.upsert(arrow(table, change.rows), [KEY]).updated

    def transaction(
        self, changes: Sequence[Change], tables: Sequence[PlainTable], *, commits: bool
    ) -> list[int | None]:
        counts: list[int | None] = []
        try:
            with self.store.transaction() as txn:
                for change, table in zip(changes, tables, strict=True):
                    counts.append(self.act(txn.load_table(f"{DATABASE}.{change.name}"), change, table))
                if not commits:
                    raise RolledBack
        except RolledBack:
            pass
        return counts

    def scan(self, name: str, table: PlainTable, where: Condition, names: Sequence[str]) -> list[tuple[Any, ...]]:
        loaded = self.store.load_table(f"{DATABASE}.{name}")
        rows = loaded.scan(where.text or None, selected_fields=names, timestamps="parts").to_arrow().to_pylist()
        return in_order(tuple(shown(row[name], table.columns[name]) for name in names) for row in rows)

    def count(self, name: str, where: Condition) -> int:
        return self.store.load_table(f"{DATABASE}.{name}").scan(where.text or None).count()


class SqlDoor:
    """``compactor sql``: literals of scalar types, and no upsert, which is a DELETE and an INSERT in one transaction."""

    stops = True
    reads_itself = False
    compared = COMPARED

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site

    def fitted(self, table: PlainTable, rows: Sequence[Row]) -> tuple[Row, ...]:
        return tuple({name: _in_literals(row.get(name), kind) for name, kind in table.columns.items()} for row in rows)

    def create(self, name: str, table: PlainTable) -> None:
        self.run(definition(name, table))

    def change(self, change: Change, table: PlainTable) -> int | None:
        texts = _sql(change, table)
        if len(texts) > 1:
            self.run("START TRANSACTION", *texts, "COMMIT")
            return None
        return _counted(change, self.run(*texts)) if texts else 0

    def transaction(
        self, changes: Sequence[Change], tables: Sequence[PlainTable], *, commits: bool
    ) -> list[int | None]:
        texts = [_sql(change, table) for change, table in zip(changes, tables, strict=True)]
        ends = "COMMIT" if commits else "ROLLBACK"
        answers = iter(self.run("START TRANSACTION", *(text for of_change in texts for text in of_change), ends)[1:])
        counts: list[int | None] = []
        for change, of_change in zip(changes, texts, strict=True):
            answered = [next(answers) for _ in of_change]
            counts.append(_counted(change, answered) if of_change else 0)
        return counts

    def scan(self, name: str, table: PlainTable, where: Condition, names: Sequence[str]) -> list[tuple[Any, ...]]:
        rows = self.run(f"SELECT {', '.join(names)} FROM {name}{_where(where)}")
        return in_order(tuple(shown(row[name], table.columns[name]) for name in names) for row in rows)

    def count(self, name: str, where: Condition) -> int:
        return int(self.run(f"SELECT count(*) FROM {name}{_where(where)}")[0]["count(*)"])

    def run(self, *texts: str) -> list[dict[str, Any]]:
        """Runs statements, and returns the rows of all answers."""
        return [dict(row) for answer in run(self.site, check_text("; ".join(texts)), DATABASE) for row in answer.rows]


def definition(name: str, table: PlainTable) -> str:
    """Returns the statement that creates a table."""
    plain = [
        (column, kind) for column, kind in table.columns.items() if not (table.is_partitioned and column == PARTITION)
    ]
    text = f"CREATE TABLE {name} ({', '.join(map(' '.join, plain))})"
    text += f" PARTITIONED BY ({PARTITION} {table.columns[PARTITION]})" if table.is_partitioned else ""
    return text + (f" CLUSTERED BY ({KEY}) INTO {table.buckets} BUCKETS" if table.buckets else "")


def _where(where: Condition) -> str:
    return f" WHERE {where.text}" if where.text else ""


def _counted(change: Change, answers: Sequence[dict[str, Any]]) -> int | None:
    return None if change.kind == "upsert" else sum(answer.get("rows", 0) for answer in answers)


def _sql(change: Change, table: PlainTable) -> list[str]:
    inserting = f"INTO {change.name} ({', '.join(table.columns)}) VALUES " + ", ".join(
        "(" + ", ".join(literal(row[name], kind) for name, kind in table.columns.items()) + ")" for row in change.rows
    )
    match change.kind:
        case "append" | "stream":
            return [f"INSERT {inserting}"] if change.rows else []
        case "overwrite" if change.rows:
            return [f"INSERT {inserting.replace('INTO', 'OVERWRITE TABLE', 1)}"]
        case "overwrite":
            return [] if table.is_partitioned else [f"TRUNCATE TABLE {change.name}"]
        case "delete":
            return [f"DELETE FROM {change.name}{_where(change.where)}"]
        case "update":
            values = ", ".join(
                f"{name} = {literal(value, table.columns[name])}" for name, value in change.values.items()
            )
            return [f"UPDATE {change.name} SET {values}{_where(change.where)}"]
    keys = sorted({row[KEY] for row in change.rows} - {None})
    gone = [f"DELETE FROM {change.name} WHERE {KEY} IN ({', '.join(map(str, keys))})"] if keys else []
    return [*gone, f"INSERT {inserting}"] if change.rows else []


def _in_literals(value: Any, kind: str) -> Any:
    if "<" in kind or kind == "binary":
        return None
    if isinstance(value, float) and (not math.isfinite(value) or math.copysign(1, value) < 0):
        return 1.5
    return value


def arrow(table: PlainTable, rows: Sequence[Row]) -> pa.Table:
    """Returns rows with the columns that they have, of explicit types."""
    names = [name for name in table.columns if all(name in row for row in rows)]
    arrays = [
        pa.array([_for_arrow(row[name], table.columns[name]) for row in rows], _ARROW[table.columns[name]])
        for name in names
    ]
    return pa.Table.from_arrays(arrays, names=names)


def _for_arrow(value: Any, kind: str) -> Any:
    if value is None:
        return None
    name, _, inner = kind.partition("<")
    match name:
        case "timestamp":
            return {"seconds": value[0], "nanos": value[1]}
        case "map":
            return list(value.items())
        case "struct":
            fields = dict(field.split(":", 1) for field in fields_of(inner.removesuffix(">")))
            return {field: _for_arrow(value[field], of) for field, of in fields.items()}
    return value
