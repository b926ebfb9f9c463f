"""Decides if a type widens to another: readers must show every old value alike in the new type."""

from __future__ import annotations

from compactor.orc.format.types import (
    INTEGERS,
    OrcType,
    TypeKind,
    Types,
    by_position,
)

_DIGITS = {
    TypeKind.BYTE: 3,
    TypeKind.SHORT: 5,
    TypeKind.INT: 10,
    TypeKind.LONG: 19,
}  #: of the largest value, without sign


def widens(old: Types, new: Types) -> bool:
    """Returns true if every value of ``old`` is a value of ``new`` that readers show in the same way.

    Columns are matched by position, and trailing ones may be missing in ``old`` (they read as NULL), as in Hive's ORC schema
    evolution. So are fields of structs inside a column, if their names agree. Integers and floating point may grow; decimals
    must keep all digits, texts their length. An integer may become text, a decimal or floating point if each of its values
    has exactly one form there. Excluded are values that readers spell differently: floating point, decimals, booleans,
    dates and timestamps as text, a date as a timestamp, a char (padded or not) as text.
    """
    return old.is_acid == new.is_acid and _widens(old, 0, new, 0, by_position(old))


def column_widens(old: Types, i: int, new: Types, j: int) -> bool:
    """Returns true if column ``i`` of ``old`` widens to column ``j`` of ``new``; see ``widens``."""
    return _widens(old, i, new, j, by_position(old))


def _widens(old: Types, i: int, new: Types, j: int, outer: frozenset[int]) -> bool:
    a, b = old[i], new[j]
    if a.kind is TypeKind.STRUCT and b.kind is TypeKind.STRUCT:
        names = [[name.lower() for name in item.field_names[: len(a.children)]] for item in (a, b)]
        if len(a.children) > len(b.children) or (i not in outer and names[0] != names[1]):
            return False
    if a.children or a.kind is TypeKind.STRUCT:
        fits = a.kind is b.kind and (a.kind is TypeKind.STRUCT or len(a.children) == len(b.children))
        return fits and all(_widens(old, x, new, y, outer) for x, y in zip(a.children, b.children, strict=False))
    return leaf_widens(a, b)


def leaf_widens(a: OrcType, b: OrcType) -> bool:
    """Returns true if ``a`` widens to ``b``, both single columns without children; see ``widens``."""
    if a.kind in INTEGERS and b.kind is not a.kind:
        return _integer_widens(a, b)
    if a.kind is TypeKind.DECIMAL and b.kind is TypeKind.DECIMAL:
        return a.scale <= b.scale and a.precision - a.scale <= b.precision - b.scale
    if a.kind is TypeKind.VARCHAR:
        return b.kind is TypeKind.STRING or (b.kind is TypeKind.VARCHAR and a.maximum_length <= b.maximum_length)
    if a.kind is TypeKind.CHAR:
        return b.kind is TypeKind.CHAR and a.maximum_length <= b.maximum_length
    return a.kind is b.kind or (a.kind is TypeKind.FLOAT and b.kind is TypeKind.DOUBLE)


def _integer_widens(a: OrcType, b: OrcType) -> bool:
    digits = _DIGITS[a.kind]
    if b.kind is TypeKind.STRING:
        return True
    if b.kind is TypeKind.VARCHAR:
        return digits + 1 <= b.maximum_length
    if b.kind is TypeKind.DECIMAL:
        return digits <= b.precision - b.scale
    if b.kind in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return digits <= (5 if b.kind is TypeKind.FLOAT else 10)  # 24 and 53 bits of mantissa
    return b.kind in INTEGERS and a.kind <= b.kind
