"""A filter bound to a schema: every name is a column, every literal a value of its column's type.

Numbers are compared exactly: ``amount > 10.5`` on integers becomes ``amount > 10``. A comparison that has the same result
for all values of the type becomes ``Settled``.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from typing import TypeAlias

import pyarrow as pa

from compactor.orc.codecs.arrow_types import ArrowType

#: A comparable value: ``True``, ``12``, ``Decimal("1.5")``, ``b"text"``; days and nanoseconds since 1970 are integers.
Value: TypeAlias = bool | int | float | Decimal | bytes

_PART = re.compile(r"\\[%_]|.", re.DOTALL)  #: one character or escape of a LIKE pattern
_WILD = {"%": ".*", "_": "."}


class ValueKind(enum.Enum):
    """The kind of values as which a column is compared."""

    BOOLEAN = "boolean"
    NUMBER = "number"  #: integers and decimals
    FLOAT = "floating point"
    TEXT = "text"
    CHAR = "char"  #: text whose trailing blanks do not count
    DATE = "date"
    TIMESTAMP = "timestamp"
    OTHER = "other"  #: can only be tested for NULL


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterColumn:
    """A column of the schema."""

    name: str
    kind: ValueKind
    type: ArrowType


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """``column operator value``; the column's type has this value."""

    column: FilterColumn
    operator: str
    value: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """``left operator right`` of two columns."""

    left: FilterColumn
    operator: str
    right: FilterColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """``column IN (values)``. The values are sorted, except those of floating-point columns.

    ``or_null`` is true if NULL is among the values; the condition is then never false.
    """

    column: FilterColumn
    values: tuple[Value, ...]
    or_null: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """``column IS NULL``."""

    column: FilterColumn


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """``column LIKE pattern``.

    As in Hive's ``UDFLike``, a backslash is only an escape before ``%`` and ``_``.
    """

    column: FilterColumn
    pattern: str

    @property
    def prefix(self) -> bytes:
        """The text with which every match begins."""
        return "".join(part[-1] for part in takewhile(lambda part: part not in _WILD, self._parts)).encode()

    @property
    def expression(self) -> str:
        """The pattern as a regular expression of RE2, to be searched in a text.

        Arrow's own LIKE is inconsistent: depending on the pattern, it takes a backslash for itself or for an escape.
        """
        whole = "".join(_WILD.get(part) or _exactly(part[-1]) for part in self._parts)
        begin = "" if whole.startswith(_WILD["%"]) else r"\A"
        return f"(?s){begin}{whole.removeprefix(_WILD['%'])}" + r"\z"

    @property
    def _parts(self) -> list[str]:
        return _PART.findall(self.pattern)


def _exactly(character: str) -> str:
    return character if character.isalnum() else f"\\x{{{ord(character):x}}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """``value`` for every row in which ``column`` is not NULL, and unknown for the others."""

    column: FilterColumn
    value: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The same outcome for every row; None is unknown."""

    value: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Negation:
    part: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class All:
    """AND."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Any:
    """OR."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Compared | Pair | OneOf | Missing | Matches | Settled | Constant | Negation | All | Any


def find_columns(condition: Condition) -> dict[str, FilterColumn]:
    """Returns the columns of the condition, by name."""
    match condition:
        case All(parts=parts) | Any(parts=parts):
            return {name: column for part in parts for name, column in find_columns(part).items()}
        case Negation(part=part):
            return find_columns(part)
        case Pair(left=left, right=right):
            return {left.name: left, right.name: right}
        case Constant():
            return {}
    return {condition.column.name: condition.column}


def to_scalar(column: FilterColumn, value: Value) -> pa.Scalar:
    """Converts a value of ``column`` to Arrow."""
    if column.kind is ValueKind.FLOAT:
        return pa.scalar(value, pa.float64())
    if column.kind in (ValueKind.TEXT, ValueKind.CHAR) and isinstance(value, bytes):
        return pa.scalar(value.decode(), pa.string())
    if column.kind is ValueKind.DATE:
        return pa.scalar(value, pa.int32()).cast(column.type)
    if column.kind is ValueKind.TIMESTAMP and pa.types.is_struct(column.type) and isinstance(value, int):
        return pa.scalar(Decimal(value), pa.decimal128(38, 0))
    if column.kind is ValueKind.TIMESTAMP and isinstance(value, int):
        return pa.scalar(value if column.type.unit == "ns" else value // 1000, pa.int64()).cast(column.type)
    return pa.scalar(value, column.type)
