"""Decides if a type widens to another: readers must show every old value alike in the new type.

Every reader converts a file's column to the table's type. So the output gets the smallest type that holds all values of its
inputs, and readers show the same as before. It gets the table's own type only if inputs must be converted (to text, for
example) and readers would produce exactly the same values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from compactor.base.errors import NotLossless
from compactor.orc.format.hive_types import schema_text
from compactor.orc.format.types import (
    INTEGERS,
    OrcType,
    TypeKind,
    Types,
    by_position,
    same_shape,
    struct_of,
    subtree,
)

_DIGITS = {
    TypeKind.BYTE: 3,
    TypeKind.SHORT: 5,
    TypeKind.INT: 10,
    TypeKind.LONG: 19,
}  #: of the largest value, without sign
_TEXTS = frozenset({TypeKind.STRING, TypeKind.VARCHAR})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """One column: its type in each file, oldest first, and in the table, if the table has the column."""

    path: str
    files: Sequence[tuple[str, Types]]
    table: Types | None

    def below(self, path: str, place: int) -> _Column:
        """Returns the child column at ``place``, with the trees that have one there."""
        parts = [(name, child) for name, tree in self.files if (child := _child(tree, place)) is not None]
        table = self.table
        known = table if table is not None and table[0].kind is self.files[-1][1][0].kind else None
        return _Column(path=path, files=parts, table=None if known is None else _child(known, place))


def common_types(files: Mapping[str, Types], table: Types) -> Types:
    """Returns the struct that holds every row of ``files`` as all readers show it.

    Columns are matched by position, fields of structs inside a column by position and name. Columns missing at the end of
    older files are NULL there. If all files agree, the result is their type, whatever the table's type is. Columns get the
    table's names and the attributes of the newest file.

    Args:
        files: the name and row type of each file, oldest first; at least one.
        table: the table's current row type.

    Raises:
        NotLossless: no type can show the values of two files as they are.
    """
    newest = {tree: name for name, tree in files.items()}
    if len(newest) == 1:
        return _named_as(table, *newest)
    trees = [(name, tree) for name, tree in files.items() if newest[tree] == name]
    return _struct(_Column(path="", files=trees, table=table), is_row=True)


@lru_cache(maxsize=256)
def _named_as(table: Types, tree: Types) -> Types:
    """Returns the type if all files have ``tree``, as in most tables."""
    return _struct(_Column(path="", files=[("", tree)], table=table), is_row=True)


def _child(tree: Types, place: int) -> Types | None:
    children = tree[0].children
    return subtree(tree, children[place]) if place < len(children) else None


def _common(column: _Column) -> Types:
    kinds = {tree[0].kind for _, tree in column.files}
    if kinds == {TypeKind.STRUCT}:
        return _struct(column, is_row=False)
    newest = column.files[-1][1]
    if len(kinds) == 1 and newest[0].children:
        counts = {len(tree[0].children) for _, tree in column.files}
        if len(counts) > 1:
            raise _refusal(column)
        parts = [_common(column.below(f"{column.path}[{place}]", place)) for place in range(counts.pop())]
        root, *rest = struct_of([("", part) for part in parts])
        return Types((replace(newest[0], children=root.children), *rest))
    return Types((_leaf(column),))


def _struct(column: _Column, *, is_row: bool) -> Types:
    newest = column.files[-1][1][0]
    longest = max((tree[0] for _, tree in reversed(column.files)), key=lambda item: len(item.children))
    names = list(longest.field_names)
    if is_row:
        known = column.table[0].field_names if column.table is not None else ()
        names = [known[place] if place < len(known) else name for place, name in enumerate(names)]
    elif any(not _begins(names, tree[0].field_names) for _, tree in column.files):
        raise _refusal(column)
    prefix = f"{column.path}." if column.path else ""
    fields = [(name, _common(column.below(prefix + name, place))) for place, name in enumerate(names)]
    root, *rest = struct_of(fields)
    return Types((replace(root, attributes=newest.attributes), *rest))


def _begins(names: Sequence[str], first: Sequence[str]) -> bool:
    return all(a.lower() == b.lower() for a, b in zip(names, first, strict=False))


def _leaf(column: _Column) -> OrcType:
    items = [tree[0] for _, tree in column.files]
    newest, kinds = items[-1], {item.kind for item in items}
    if all(same_shape(Types((item,)), Types((newest,))) for item in items):
        return newest
    if kinds <= INTEGERS:
        return replace(newest, kind=max(kinds))
    if kinds in ({TypeKind.VARCHAR}, {TypeKind.CHAR}):
        return replace(newest, maximum_length=max(item.maximum_length for item in items))
    if kinds == _TEXTS:
        return replace(newest, kind=TypeKind.STRING, maximum_length=0)
    if kinds == {TypeKind.DECIMAL} and len({item.scale for item in items}) == 1:
        return replace(newest, precision=max(item.precision for item in items))
    # Any other conversion could change the text that a reader shows: 5 is "5", but "5.0" as a double.
    table = column.table
    if table is not None and len(table) == 1 and all(leaf_widens(item, table[0]) for item in items):
        return replace(table[0], attributes=newest.attributes)
    raise _refusal(column)


def _refusal(column: _Column) -> NotLossless:
    name, newest = column.files[-1]
    other, older = next(((n, t) for n, t in reversed(column.files) if not same_shape(t, newest)), column.files[0])
    table = "nothing" if column.table is None else schema_text(column.table)
    return NotLossless(
        f"column {column.path}: {other} holds {schema_text(older)}, {name} holds {schema_text(newest)}, the table says "
        f"{table}; no file can hold both as every reader shows them; rewrite the partition with INSERT OVERWRITE"
    )
