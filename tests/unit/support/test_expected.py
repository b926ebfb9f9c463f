"""The renderer that fixtures are compared with must itself print what Hive printed."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pyarrow.orc
import pytest

from compactor.acid.bucket import RowId
from compactor.base.ids import WriteId
from tests.support.expected import (
    HIVE_NULL_PARTITION,
    difference,
    java_number,
    plain_rows,
    read_expected,
    render,
    render_line,
    step,
    steps,
)


def test_every_set_has_steps_and_each_has_as_many_rows_as_row_ids() -> None:
    found = steps()
    assert {path.parts[-3] for path in found} == {"hive-2.3", "hive-3.1", "hive-4.1", "trino-476"}
    assert len(found) == 116
    for path in found:
        expected = read_expected(path)
        assert difference(expected.rows, (text for _, text in expected.row_ids)) == "", path


def test_row_ids_of_both_names_are_values() -> None:
    assert (RowId(WriteId(2), 0, 0), "2\tTWO") in read_expected(step("hive-2.3/f1_basic/s3_delete_insert")).row_ids
    first = read_expected(step("hive-4.1/f2_part/s1_dml")).row_ids[0]
    assert first == (RowId(WriteId(1), 536870912, 1), "3\tx3\tx\t1")


@pytest.mark.parametrize("name", ["hive-3.1/f6_types/s2_major", "hive-2.3/f6_types/s2_major"])
def test_arrow_rows_of_every_type_render_as_hive_printed_them(name: str) -> None:
    path = step(name)
    expected = read_expected(path)
    (bucket,) = path.glob("*/base_*/bucket_00000")
    rows = pyarrow.orc.read_table(bucket).column("row").combine_chunks()
    assert sorted(render_line(expected, row) for row in plain_rows(rows)) == list(expected.rows)


def test_null_partition_prints_as_the_engine_prints_it() -> None:
    hive = read_expected(step("hive-4.1/f2_part/s1_dml"))
    trino = read_expected(step("trino-476/t2_part/s2_dml"))
    assert render_line(hive, (7, "nul"), (HIVE_NULL_PARTITION, "4")) in hive.rows
    assert render_line(trino, (5, None), (HIVE_NULL_PARTITION, "4")) in trino.rows


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (None, "int", "NULL"),
        (True, "boolean", "true"),
        (decimal.Decimal("-0.00001"), "decimal(20,5)", "-0.00001"),
        (decimal.Decimal("1.5"), "decimal(10,3)", "1.500"),
        (decimal.Decimal("1E+3"), "decimal(10,0)", "1000"),
        ("", "char(6)", "      "),
        (b"bin", "binary", "bin"),
        (-719164, "date", "0001-01-01"),
        (-141428, "date", "1582-10-04"),
        (-141427, "date", "1582-10-15"),
        (datetime.date(1, 1, 1), "date", "0001-01-01"),
        (datetime.datetime(1969, 7, 20, 20, 17, 40, 500_000), "timestamp", "1969-07-20 20:17:40.5"),
        (2932896, "date", "9999-12-31"),
        ((-12219292801, 999_999_999), "timestamp", "1582-10-04 23:59:59.999999999"),
        ((-14182940, 500_000_000), "timestamp", "1969-07-20 20:17:40.5"),
        ([1, None], "array<int>", "[1,null]"),
        ([("k", 1), ("n", None)], "map<string,int>", '{"k":1,"n":null}'),
        ([(1, True)], "map<int,boolean>", "{1:true}"),
        ((1, 'y"y\n'), "struct<x:int,y:string>", '{"x":1,"y":"y\\"y\\n"}'),
        (
            [("kk", [("z", [decimal.Decimal("1.250")])])],
            "array<struct<k:string,m:map<string,array<decimal(10,2)>>>>",
            '[{"k":"kk","m":{"z":[1.25]}}]',
        ),
        ([[0]], "array<array<date>>", '[["1970-01-01"]]'),
    ],
)
def test_render(value: object, kind: str, text: str) -> None:
    assert render(value, kind) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_floating_point_prints_as_in_java(value: float, text: str) -> None:
    assert java_number(value) == text


def test_single_precision_prints_its_own_shortest_text() -> None:
    assert java_number(0.1, single=True) == "0.1"
    assert java_number(16777216.0, single=True) == "1.6777216E7"


def test_plain_rows_keeps_nanoseconds() -> None:
    batch = pa.record_batch({"t": pa.array([-1, None], pa.timestamp("ns")), "d": pa.array([1, 2], pa.date32())})
    assert list(plain_rows(batch)) == [((-1, 999_999_999), 1), (None, 2)]


def test_difference_counts_what_occurs_twice() -> None:
    assert difference(["a", "b"], ["b", "a"]) == ""
    assert difference(["a"], ["a", "a"]) == "missing 0: []; too much 1: ['a']"
