"""Iceberg's own reader in Java, as Spark and Flink use it, without an engine.

A row is a text: its values in brackets, numbers as they are, texts and bytes in hexadecimal digits, floating point by its
bits, days, or seconds and nanoseconds, since 1970-01-01, and the entries of maps in order.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.judges.jvm import Jvm, judge_classpath
from tests.support.java import compiled

_POM, _SOURCE = (Path(__file__).parent / "iceberg" / name for name in ("pom.xml", "IcebergJudge.java"))


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergJudge:
    """A release of Iceberg in a JVM of this zone."""

    name: str
    _jvm: Jvm
    zone: str = "UTC"

    def rows_of_file(self, path: str, schema: str, expression: str | None = None) -> list[str]:
        """Returns the rows of an ORC data file by an Iceberg schema in JSON.

        With an expression in JSON the reader may leave out row groups without matching rows, but no others.
        """
        return self._ask({"path": path, "schema": schema}, expression)

    def rows_of_table(self, metadata: str, expression: str | None = None) -> list[str]:
        """Returns the rows of the table with this metadata file that match an expression in JSON."""
        return self._ask({"metadata": metadata}, expression)

    def _ask(self, request: Mapping[str, str], expression: str | None) -> list[str]:
        filtered = {} if expression is None else {"filter": expression}
        rows: list[str] = self._jvm.ask({**request, **filtered, "zone": self.zone})["rows"]
        return rows


def classpath() -> str:
    """Returns where Java finds the judge."""
    return judge_classpath("iceberg", _POM, _SOURCE, lambda classes, jars: compiled([_SOURCE], classes, "-cp", jars))


@cache
def _jvm() -> Jvm:
    return Jvm("Iceberg 1.12.0", lambda: ["java", "-cp", classpath(), "IcebergJudge"])


def iceberg_1_12(zone: str = "UTC") -> IcebergJudge:
    """Returns Iceberg 1.12.0."""
    return IcebergJudge(name="Iceberg 1.12.0", _jvm=_jvm(), zone=zone)


def rows_of_arrow(table: pa.Table) -> list[str]:
    """Returns the rows of a table in the judge's form."""
    columns = [[_arrow_text(scalar) for scalar in column] for column in table.columns]
    return [f"({', '.join(row)})" for row in zip(*columns, strict=True)]


def _arrow_text(scalar: Any) -> str:
    kind = scalar.type
    if not scalar.is_valid:
        return "NULL"
    if pa.types.is_struct(kind):
        return f"({', '.join(_arrow_text(scalar[field.name]) for field in kind)})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"[{', '.join(map(_arrow_text, scalar.values))}]"
    if pa.types.is_map(kind):
        pairs = (f"{_arrow_text(pair['key'])}: {_arrow_text(pair['value'])}" for pair in scalar.values)
        return f"{{{', '.join(sorted(pairs))}}}"
    if pa.types.is_timestamp(kind):
        per_second = {"us": 10**6, "ns": 10**9}[kind.unit]
        return time_form(scalar.value * (10**9 // per_second))
    if pa.types.is_date(kind):
        return f"day {scalar.value}"
    return leaf_form(scalar.as_py(), single=pa.types.is_float32(kind))


def time_form(nanos: int) -> str:
    """Returns the form of a timestamp so many nanoseconds after 1970-01-01."""
    return "second {} {}".format(*divmod(nanos, 10**9))


def leaf_form(value: Any, *, single: bool = False) -> str:
    """Returns the form of a boolean, number, text or binary; ``single`` marks a float of 32 bits."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        name, form, bits = ("float", ">f", ">I") if single else ("double", ">d", ">Q")
        return f"{name} {struct.unpack(bits, struct.pack(form, value))[0]:x}"
    if isinstance(value, str):
        return f"text {value.encode().hex()}"
    return (
        f"bytes {value.hex()}"
        if isinstance(value, bytes)
        else format(value, "f")
        if isinstance(value, Decimal)
        else str(value)
    )
