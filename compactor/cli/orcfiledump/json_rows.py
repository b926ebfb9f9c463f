"""The rows of one file, each as a line of JSON as Gson writes it.

Dates, times and decimals are texts, binary is a list of bytes, a map a list of ``_key`` and ``_value``; a char has no blanks
at its end; NaN and the infinities are written without quotes, which is no JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from compactor.cli.dump_files import batches
from compactor.cli.orcfiledump.java_text import (
    date_text,
    double_text,
    field_name,
    local_seconds,
    plain_decimal,
    quoted,
    text_of,
    timestamp_text,
)
from compactor.orc.codecs.json_values import seconds_and_nanos
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import INTEGERS, TEXT_KINDS, OrcType, TypeKind
from compactor.orc.io.source import Source


def json_lines(source: Source, tail: Tail) -> Iterator[str]:
    """Yields every row in file order; memory is bounded by a batch of rows.

    Raises:
        BadFile: a stripe cannot be decoded.
        NotLossless: neither codec decodes a type completely (unions), or columns are encrypted.
    """
    printer = _Printer(tail)
    for batch in batches(source, tail):
        columns = [(printer.name(0, place), child) for place, child in enumerate(tail.types[0].children)]
        for row in range(batch.num_rows):
            fields = (
                f"{name}:{printer.value(batch.column(place)[row], child)}"
                for place, (name, child) in enumerate(columns)
            )
            yield f"{{{','.join(fields)}}}"


class _Printer:
    """Prints values of one file."""

    def __init__(self, tail: Tail) -> None:
        self._types, self._proleptic = tail.types, tail.is_proleptic

    def name(self, column: int, place: int) -> str:
        """Returns the name of a struct's field as a text of JSON."""
        return quoted(field_name(self._types[column].field_names[place]))

    def value(self, scalar: Any, column: int) -> str:
        """Returns a value of ``column``."""
        if not scalar.is_valid:
            return "null"
        item = self._types[column]
        if item.kind in INTEGERS:
            return str(scalar.as_py())
        if item.kind in TEXT_KINDS:
            return quoted(_text(scalar, item))
        if item.kind is TypeKind.DECIMAL:
            return f'"{plain_decimal(scalar.as_py())}"'
        if item.kind is TypeKind.DATE:
            return f'"{date_text(scalar.value, proleptic=self._proleptic)}"'
        if item.kind in (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT):
            return self._timestamp(scalar, item.kind)
        if item.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
            return double_text(scalar.as_py())
        if item.kind is TypeKind.BINARY:
            return f"[{','.join(map(str, scalar.as_py()))}]"
        if item.kind is TypeKind.BOOLEAN:
            return "true" if scalar.as_py() else "false"
        return self._compound(scalar, item, column)

    def _timestamp(self, scalar: Any, kind: TypeKind) -> str:
        seconds, nanos = seconds_and_nanos(scalar)
        if kind is TypeKind.TIMESTAMP_INSTANT:
            seconds = local_seconds(seconds)
        return f'"{timestamp_text(seconds, nanos, proleptic=self._proleptic)}"'

    def _compound(self, scalar: Any, item: OrcType, column: int) -> str:
        if item.kind is TypeKind.STRUCT:
            fields = (
                f"{self.name(column, place)}:{self.value(scalar[place], child)}"
                for place, child in enumerate(item.children)
            )
            return f"{{{','.join(fields)}}}"
        if item.kind is TypeKind.LIST:
            return f"[{','.join(self.value(part, item.children[0]) for part in scalar.values or ())}]"
        key, content = item.children
        pairs = (
            f'{{"_key":{self.value(pair[0], key)},"_value":{self.value(pair[1], content)}}}'
            for pair in scalar.values or ()
        )
        return f"[{','.join(pairs)}]"


def _text(scalar: Any, item: OrcType) -> str:
    text = text_of(scalar.as_buffer().to_pybytes())
    if item.kind is TypeKind.STRING:
        return text
    text = text[: item.maximum_length]
    return text.rstrip(" ") if item.kind is TypeKind.CHAR else text
