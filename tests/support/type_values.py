"""The types of Hive's tables, and values of each as Hive, Trino, Arrow and our filters write them."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

ORDINARY, LOWEST, HIGHEST, NULL = range(4)  #: what each type has a value for


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    """One value, as each side writes it."""

    hive: str
    trino: str
    arrow: Any
    ours: str | None  #: as ``update`` takes it; None for nested values, which it takes from other columns only


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A type, the column that has it in a table of all types, and its values."""

    name: str
    hive: str
    trino: str
    arrow: pa.DataType
    values: tuple[Spelled, ...]

    @property
    def is_nested(self) -> bool:
        return "<" in self.hive


def _scalar(
    hive: str, arrow: pa.DataType, make: Callable[[str], Any], *texts: str, trino: str | None = None, name: str = ""
) -> Kind:
    of_trino, is_number = trino or hive, pa.types.is_integer(arrow) or pa.types.is_floating(arrow)
    values = [
        Spelled(
            hive=f"cast('{_escaped(text)}' as {hive})",
            trino=f"to_utf8({_quoted(text)})" if of_trino == "varbinary" else f"cast({_quoted(text)} as {of_trino})",
            arrow=make(text),
            ours=text if is_number or pa.types.is_decimal(arrow) or pa.types.is_boolean(arrow) else _quoted(text),
        )
        for text in texts
    ]
    none = Spelled(hive=f"cast(null as {hive})", trino=f"cast(null as {of_trino})", arrow=None, ours="NULL")
    column = "c_" + (name or hive.partition("(")[0])
    return Kind(name=column, hive=hive, trino=of_trino, arrow=arrow, values=(*values, none))


def _nested(name: str, hive: str, trino: str, arrow: pa.DataType, *values: tuple[str, str, Any]) -> Kind:
    spelled = [
        Spelled(hive=one, trino=f"cast({other} as {trino})", arrow=value, ours=None) for one, other, value in values
    ]
    none = Spelled(hive="null", trino=f"cast(null as {trino})", arrow=None, ours="NULL")
    return Kind(name=name, hive=hive, trino=trino, arrow=arrow, values=(*spelled, none))


def _escaped(text: str) -> str:
    """Returns Hive's spelling; a job of Hive 3 puts its query into a document that cannot hold control characters."""
    return text.replace("'", "\\'").replace("\x01", "\\u0001")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _timestamp(text: str) -> np.datetime64:
    return np.datetime64(text.replace(" ", "T"))


SCALARS = (
    _scalar("boolean", pa.bool_(), lambda text: text == "true", "true", "false", "true"),
    _scalar("tinyint", pa.int8(), int, "5", "-128", "127"),
    _scalar("smallint", pa.int16(), int, "300", "-32768", "32767"),
    _scalar("int", pa.int32(), int, "70000", "-2147483648", "2147483647", trino="integer"),
    _scalar("bigint", pa.int64(), int, "5000000000", "-9223372036854775808", "9223372036854775807"),
    _scalar("float", pa.float32(), float, "0.1", "-3.4028235E38", "3.4028235E38", trino="real"),
    _scalar("double", pa.float64(), float, "0.1", "-1.7976931348623157E308", "1.7976931348623157E308"),
    _scalar("decimal(10,2)", pa.decimal128(10, 2), decimal.Decimal, "12.30", "-99999999.99", "99999999.99"),
    _scalar(
        "decimal(38,18)",
        pa.decimal128(38, 18),
        decimal.Decimal,
        "0.000000000000000001",
        "-99999999999999999999.999999999999999999",
        "99999999999999999999.999999999999999999",
        name="wide",
    ),
    _scalar("string", pa.string(), str, "some text", "", "Zürich 漢字 🎉 \"'", trino="varchar"),
    _scalar("varchar(10)", pa.string(), str, "some text", "", "漢字漢字漢字漢字漢字"),
    _scalar("char(6)", pa.string(), str, "text", "", "漢字🎉xyz"),
    _scalar("binary", pa.binary(), str.encode, "some bytes", "", "\x01é", trino="varbinary"),
    _scalar("date", pa.date32(), datetime.date.fromisoformat, "2024-02-29", "1600-01-01", "9999-12-31"),
    _scalar(
        "timestamp",
        pa.timestamp("ns"),
        _timestamp,
        "1969-12-30 23:59:59.123456789",
        "1600-01-01 00:00:00.001",
        "9999-12-31 23:59:59.999999",
        trino="timestamp(9)",
    ),
)

NESTED = (
    _nested(
        "c_array",
        "array<int>",
        "array(integer)",
        pa.list_(pa.int32()),
        ("array(1, 2, 3)", "array[1, 2, 3]", [1, 2, 3]),
        ("array(cast(null as int), -5)", "array[null, -5]", [None, -5]),
        ("array(7)", "array[7]", [7]),
    ),
    _nested(
        "c_map",
        "map<string,bigint>",
        "map(varchar, bigint)",
        pa.map_(pa.string(), pa.int64()),
        ("map('one', 1L)", "map(array['one'], array[1])", [("one", 1)]),
        ("map('none', cast(null as bigint))", "map(array['none'], array[null])", [("none", None)]),
        ("map('', 9223372036854775807L)", "map(array[''], array[9223372036854775807])", [("", 2**63 - 1)]),
    ),
    _nested(
        "c_struct",
        "struct<d:date,n:decimal(5,2),c:char(3),t:timestamp,b:boolean>",
        "row(d date, n decimal(5,2), c char(3), t timestamp(9), b boolean)",
        pa.struct(
            [
                pa.field("d", pa.date32()),
                pa.field("n", pa.decimal128(5, 2)),
                pa.field("c", pa.string()),
                pa.field("t", pa.timestamp("ns")),
                pa.field("b", pa.bool_()),
            ]
        ),
        (
            "named_struct('d', date '2024-02-29', 'n', cast('1.50' as decimal(5,2)), 'c', cast('ab' as char(3)), "
            "'t', timestamp '2024-02-29 12:34:56.123456789', 'b', true)",
            "row(date '2024-02-29', decimal '1.50', 'ab', timestamp '2024-02-29 12:34:56.123456789', true)",
            (
                datetime.date(2024, 2, 29),
                decimal.Decimal("1.50"),
                "ab",
                np.datetime64("2024-02-29T12:34:56.123456789"),
                True,
            ),
        ),
        (
            "named_struct('d', cast(null as date), 'n', cast(null as decimal(5,2)), 'c', cast(null as char(3)), "
            "'t', cast(null as timestamp), 'b', cast(null as boolean))",
            "row(null, null, null, null, null)",
            (None, None, None, None, None),
        ),
        (
            "named_struct('d', date '9999-12-31', 'n', cast('999.99' as decimal(5,2)), 'c', cast('xyz' as char(3)), "
            "'t', timestamp '9999-12-31 23:59:59.999999', 'b', false)",
            "row(date '9999-12-31', decimal '999.99', 'xyz', timestamp '9999-12-31 23:59:59.999999000', false)",
            (
                datetime.date(9999, 12, 31),
                decimal.Decimal("999.99"),
                "xyz",
                np.datetime64("9999-12-31T23:59:59.999999"),
                False,
            ),
        ),
    ),
    _nested(
        "c_deep",
        "array<struct<x:double,y:map<string,array<varchar(4)>>>>",
        "array(row(x double, y map(varchar, array(varchar(4)))))",
        pa.list_(pa.struct([pa.field("x", pa.float64()), pa.field("y", pa.map_(pa.string(), pa.list_(pa.string())))])),
        (
            "array(named_struct('x', 1.5D, 'y', map('k', array(cast('ab' as varchar(4)), cast(null as varchar(4))))))",
            "array[row(1.5, map(array['k'], array[array['ab', null]]))]",
            [(1.5, [("k", ["ab", None])])],
        ),
        (
            "array(named_struct('x', cast(null as double), 'y', map('k', array(cast('z' as varchar(4))))), "
            "named_struct('x', -2D, 'y', map('l', array(cast('cd' as varchar(4))))))",
            "array[row(null, map(array['k'], array[array['z']])), row(-2.0, map(array['l'], array[array['cd']]))]",
            [(None, [("k", ["z"])]), (-2.0, [("l", ["cd"])])],
        ),
        (
            "array(named_struct('x', 0D, 'y', map('m', array(cast('漢字' as varchar(4))))))",
            "array[row(0.0, map(array['m'], array[array['漢字']]))]",
            [(0.0, [("m", ["漢字"])])],
        ),
    ),
)

KINDS = (*SCALARS, *NESTED)


def arrow_rows(keys: Mapping[int, int], kinds: Sequence[Kind] = KINDS, **more: Sequence[Any]) -> list[pa.Table]:
    """Returns rows: those of ``keys``, which are numbers of values by the value of the column ``id``.

    Arrow has no type for all timestamps with all digits: rows of which a type has the lowest or the highest value are a
    table of their own, whose timestamps count microseconds.

    Args:
        more: values of further columns by their names, the same in each row.
    """
    extremes = {key: number for key, number in keys.items() if number in (LOWEST, HIGHEST)}
    others = {key: number for key, number in keys.items() if key not in extremes}
    made = []
    for rows, unit in ((others, "ns"), (extremes, "us")):
        if rows:
            columns: dict[str, pa.Array] = {"id": pa.array(list(rows), pa.int32())}
            for kind in kinds:
                columns[kind.name] = array_of(kind, list(rows.values()), unit)
            for name, value in more.items():
                columns[name] = pa.array([value] * len(rows))
            made.append(pa.table(columns))
    return made


def array_of(kind: Kind, numbers: Sequence[int], unit: str) -> pa.Array:
    """Returns values of a type, with timestamps in ``unit``."""
    return _array([kind.values[number].arrow for number in numbers], kind.arrow, unit)


def _array(values: Sequence[Any], wanted: pa.DataType, unit: str) -> pa.Array:
    if pa.types.is_timestamp(wanted):
        counts = [
            None if value is None else int(value.astype(f"datetime64[{unit}]").astype(np.int64)) for value in values
        ]
        return pa.array(counts, pa.int64()).cast(pa.timestamp(unit))
    if pa.types.is_struct(wanted):
        fields = list(wanted)
        parts = [
            _array([None if value is None else value[at] for value in values], field.type, unit)
            for at, field in enumerate(fields)
        ]
        names = [field.name for field in fields]
        return pa.StructArray.from_arrays(parts, names=names, mask=pa.array([value is None for value in values]))
    return pa.array(values, wanted)
