"""The size of a file's rows as objects of a 64-bit Java, estimated from the file's statistics."""

from __future__ import annotations

from compactor.orc.format import messages
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TEXT_KINDS, OrcType, TypeKind

_OBJECT, _ARRAY, _INT, _LONG = 32, 40, 4, 8
_TEXT = _OBJECT + 3 * _INT + _ARRAY  #: bytes of a text without its characters
_BYTES = {
    TypeKind.TIMESTAMP: _OBJECT + _LONG,
    TypeKind.TIMESTAMP_INSTANT: _OBJECT + _LONG,
    TypeKind.DATE: _OBJECT + 3 * _LONG,
    TypeKind.DECIMAL: 2 * _OBJECT + 6 * _LONG,
    TypeKind.DOUBLE: _LONG,
    TypeKind.LONG: _LONG,
}  #: of a value, by its kind; all others take those of an int


def raw_data_size(tail: Tail) -> int:
    """Returns the size as Java's reader estimates it.

    A column without statistics counts as a column without values.
    """
    return sum(
        _column_size(column, statistics) for column, statistics in zip(tail.types, tail.statistics, strict=False)
    )


def _column_size(column: OrcType, statistics: messages.Message) -> int:
    count = int(statistics.number_of_values)
    if column.kind is TypeKind.BINARY:
        return int(statistics.binary_statistics.sum)
    if column.kind in TEXT_KINDS:
        count = count or 1
        return count * (_TEXT + int(statistics.string_statistics.sum) // count)
    return count * _BYTES.get(column.kind, _INT)
