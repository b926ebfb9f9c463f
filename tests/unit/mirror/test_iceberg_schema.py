"""Schemas of mirrors: types, identity partitions, and changes of a table's columns."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from compactor.base.errors import MirrorStopped, NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.mirror.iceberg_schema import evolve_schema, iceberg_schema, partition_record, partition_spec
from compactor.tables.schema import PARTS


def table(columns: dict[str, str], keys: dict[str, str] | None = None) -> Table:
    return Table(
        id=1,
        database="d",
        name="t",
        location="/t",
        columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()),
        partition_keys=tuple(Column(name=name, type=kind) for name, kind in (keys or {}).items()),
    )


@pytest.mark.parametrize(
    ("hive", "iceberg"),
    [
        ("boolean", "boolean"),
        ("tinyint", "int"),
        ("smallint", "int"),
        ("int", "int"),
        ("bigint", "long"),
        ("float", "float"),
        ("double", "double"),
        ("decimal", "decimal(10, 0)"),
        ("decimal(38,18)", "decimal(38, 18)"),
        ("string", "string"),
        ("varchar(10)", "string"),
        ("char(3)", "string"),
        ("binary", "binary"),
        ("date", "date"),
        ("timestamp", "timestamp"),
        ("timestamp with local time zone", "timestamptz"),
        ("array<tinyint>", "list<int>"),
        ("map<string,array<date>>", "map<string, list<date>>"),
        ("struct<A:int,b:char(2)>", "struct<2: a: optional int (int), 3: b: optional string (char(2))>"),
    ],
)
def test_types(hive: str, iceberg: str) -> None:
    assert str(iceberg_schema(table({"c": hive})).find_type("c")) == iceberg


@pytest.mark.parametrize("kind", ["uniontype<int,string>", "array<uniontype<int,string>>", "interval_day_time"])
def test_a_type_without_an_equal_is_refused(kind: str) -> None:
    with pytest.raises(NotSupported, match=r"d\.t: column c"):
        iceberg_schema(table({"c": kind}))


def test_every_field_has_an_id_of_its_own() -> None:
    schema = iceberg_schema(table({"a": "int", "b": "map<string,struct<x:int,y:array<int>>>"}, {"day": "date"}))
    ids = sorted(schema._lazy_id_to_name)
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) == 8


def test_names_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(NotSupported, match="two columns are called a"):
        iceberg_schema(table({"a": "int", "A": "int"}))


@pytest.mark.parametrize("columns", [{"a": "struct<b:int,B:int>"}, {"a": "struct<b:int>", "a.b": "int"}])
def test_fields_of_one_name_are_refused(columns: dict[str, str]) -> None:
    with pytest.raises(NotSupported, match=r"d\.t: Iceberg needs one name for each column and field.* a\.b"):
        iceberg_schema(table(columns))


def test_partition_columns_are_identity_partitions() -> None:
    source = table({"a": "int"}, {"day": "date", "hour": "int"})
    spec = partition_spec(source, iceberg_schema(source))
    assert [(field.source_id, field.name, str(field.transform)) for field in spec.fields] == [
        (2, "day", "identity"),
        (3, "hour", "identity"),
    ]


@pytest.mark.parametrize("kind", ["float", "double", "binary", "boolean", "timestamp with local time zone"])
def test_partitions_by_types_on_which_readers_disagree_are_refused(kind: str) -> None:
    source = table({"a": "int"}, {"p": kind})
    with pytest.raises(NotSupported, match=f"partition column p is a {kind}"):
        partition_spec(source, iceberg_schema(source))


@pytest.mark.parametrize(
    ("before", "after", "kinds"),
    [
        ({"a": "int"}, {"a": "bigint"}, ["long"]),
        ({"a": "tinyint"}, {"a": "bigint"}, ["long"]),
        ({"a": "float"}, {"a": "double"}, ["double"]),
        ({"a": "decimal(5,2)"}, {"a": "decimal(9,2)"}, ["decimal(9, 2)"]),
        ({"a": "int"}, {"a": "int", "b": "array<int>"}, ["int", "list<int>"]),
        (
            {"a": "struct<x:int>"},
            {"a": "struct<x:bigint,y:int>"},
            ["struct<3: x: optional long (int), 4: y: optional int (int)>"],
        ),
    ],
)
def test_added_and_widened_columns_keep_ids(before: dict[str, str], after: dict[str, str], kinds: list[str]) -> None:
    keys = {"day": "date"}
    current = iceberg_schema(table(before, keys))
    evolved = evolve_schema(table(after, keys), current, current.highest_field_id)
    assert evolved is not None
    assert [str(field.field_type) for field in evolved.fields] == [*kinds, "date"]
    assert {field.name: field.field_id for field in evolved.fields}.items() >= {
        field.name: field.field_id for field in current.fields
    }.items()
    assert min(set(evolved._lazy_id_to_name) - set(current._lazy_id_to_name), default=9) > current.highest_field_id


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("varchar(5)", "string"),
        ("char(5)", "char(9)"),
        ("tinyint", "int"),
        ("array<smallint>", "array<int>"),
    ],
)
def test_of_types_that_are_one_in_iceberg_only_wider_ones_go_on(before: str, after: str) -> None:
    """The comment of a column remembers which of them it is."""
    current = iceberg_schema(table({"a": before}))
    evolved = evolve_schema(table({"a": after}), current, current.highest_field_id)
    assert evolved is not None
    assert (evolved.as_struct().fields[0].field_type, evolved.fields[0].doc) == (current.fields[0].field_type, after)
    assert evolve_schema(table({"a": after}), evolved, evolved.highest_field_id) is None
    why = re.escape(f"column a was {after} and is now {before}, which may not hold all values")
    with pytest.raises(MirrorStopped, match=rf"{why}.*mirror rebuild d\.t"):
        evolve_schema(table({"a": before}), evolved, evolved.highest_field_id)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"a": "int", "b": "int"}, {"a": "int", "c": "int"}, "column b is now c"),
        ({"a": "int", "b": "int"}, {"a": "int"}, "column b is gone"),
        ({"a": "int", "b": "int"}, {"b": "int", "a": "int"}, "column a is now b"),
        ({"a": "bigint"}, {"a": "int"}, "column a was long and is now int"),
        ({"a": "int"}, {"a": "string"}, "column a was int and is now string"),
        ({"a": "decimal(5,2)"}, {"a": "decimal(9,3)"}, r"column a was decimal\(5, 2\)"),
        ({"a": "struct<x:int>"}, {"a": "struct<y:int>"}, r"column a\.x is now a\.y"),
        ({"a": "array<bigint>"}, {"a": "array<string>"}, r"column a\.element was long"),
        ({"a": "string"}, {"a": "char(9)"}, r"column a was string and is now char\(9\)"),
        ({"a": "struct<x:map<string,int>>"}, {"a": "struct<x:map<string,smallint>>"}, "column a was struct<x:map"),
        ({"a": "array<int>"}, {"a": "array<bigint>"}, r"column a\.element was int and is now long"),
    ],
)
def test_other_changes_stop_the_mirror(before: dict[str, str], after: dict[str, str], why: str) -> None:
    current = iceberg_schema(table(before))
    with pytest.raises(MirrorStopped, match=rf"{why}.*mirror rebuild d\.t"):
        evolve_schema(table(after), current, current.highest_field_id)


@pytest.mark.parametrize(
    ("kind", "value", "single"),
    [
        ("int", pa.scalar(7, pa.int32()), 7),
        ("string", pa.scalar("x"), "x"),
        ("char(5)", pa.scalar("x    "), "x"),
        ("varchar(5)", pa.scalar("x  "), "x  "),
        ("date", pa.scalar(-1, pa.int32()).cast(pa.date32()), -1),
        ("decimal(5,2)", pa.scalar(Decimal("1.5"), pa.decimal128(5, 2)), Decimal("1.50")),
        ("timestamp", pa.scalar({"seconds": -1, "nanos": 999_999_000}, PARTS), -1),
        ("int", pa.scalar(None, pa.int32()), None),
    ],
)
def test_partition_values(kind: str, value: pa.Scalar, single: object) -> None:
    record = partition_record(table({"a": "int"}, {"p": kind}), "p=…", {"p": value})
    assert record[0] == single
    assert type(record[0]) is type(single)


def test_a_partition_finer_than_a_microsecond_is_refused() -> None:
    value = pa.scalar({"seconds": 0, "nanos": 1}, PARTS)
    with pytest.raises(NotSupported, match="partition p=x has a time for p that is finer"):
        partition_record(table({"a": "int"}, {"p": "timestamp"}), "p=x", {"p": value})


def test_a_partition_column_that_changes_stops_the_mirror() -> None:
    source = table({"a": "int"}, {"p": "int"})
    current = iceberg_schema(source)
    with pytest.raises(MirrorStopped, match="column p is gone"):
        evolve_schema(replace(source, partition_keys=(Column(name="q", type="int"),)), current, 2)
