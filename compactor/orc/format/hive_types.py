"""Types as Hive's text, such as ``struct<a:int,b:varchar(20)>``, in both directions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NoReturn, TypeVar

from compactor.base.errors import NotLossless
from compactor.orc.format.types import (
    MAX_CACHED,
    OrcType,
    TypeKind,
    Types,
    struct_of,
)

_NAMES = {
    TypeKind.BOOLEAN: "boolean",
    TypeKind.BYTE: "tinyint",
    TypeKind.SHORT: "smallint",
    TypeKind.INT: "int",
    TypeKind.LONG: "bigint",
    TypeKind.FLOAT: "float",
    TypeKind.DOUBLE: "double",
    TypeKind.STRING: "string",
    TypeKind.BINARY: "binary",
    TypeKind.TIMESTAMP: "timestamp",
    TypeKind.LIST: "array",
    TypeKind.MAP: "map",
    TypeKind.STRUCT: "struct",
    TypeKind.UNION: "uniontype",
    TypeKind.DECIMAL: "decimal",
    TypeKind.DATE: "date",
    TypeKind.VARCHAR: "varchar",
    TypeKind.CHAR: "char",
    TypeKind.TIMESTAMP_INSTANT: "timestamp with local time zone",
}
_KINDS = {name: kind for kind, name in _NAMES.items()} | {"integer": TypeKind.INT, "double precision": TypeKind.DOUBLE}
UNQUOTED = re.compile(r"[A-Za-z0-9_]+")
T = TypeVar("T")


def schema_text(types: Types, root: int = 0, *, quoting: bool = False) -> str:
    """Returns ``types`` as Hive's text, such as ``struct<a:int,b:varchar(20)>``.

    With ``quoting``, returns ORC's own text, which quotes names with other characters than letters, digits and underscores.
    """
    item = types[root]
    name = _NAMES[item.kind]
    parts = [schema_text(types, child, quoting=quoting) for child in item.children]
    if item.kind is TypeKind.STRUCT:
        names = map(quoted_name if quoting else valid_name, item.field_names)
        parts = [f"{field}:{part}" for field, part in zip(names, parts, strict=True)]
    if item.kind in (TypeKind.LIST, TypeKind.MAP, TypeKind.STRUCT, TypeKind.UNION):
        return f"{name}<{','.join(parts)}>"
    if item.kind is TypeKind.DECIMAL:
        return f"{name}({item.precision},{item.scale})"
    return f"{name}({item.maximum_length})" if item.kind in (TypeKind.CHAR, TypeKind.VARCHAR) else name


@lru_cache(maxsize=MAX_CACHED)
def parse_hive_type(text: str) -> Types:
    """Parses Hive's type text into a type tree. A bare ``decimal`` is ``decimal(10,0)``, as in Hive.

    Raises:
        NotLossless: ``text`` is not the text of a type that ORC can hold.
    """
    parser = _TypeParser(text)
    tree = parser.type()
    if parser.place != len(text):
        parser.fail("the end of the text")
    return tree


class _TypeParser:
    _WORD = re.compile(r"[a-z]+(?: [a-z]+)*", re.IGNORECASE)
    _QUOTED = re.compile(r"`((?:[^`]|``)*)`")
    _PLAIN = re.compile(r"[^:<>,`]+")
    _NUMBERS = re.compile(r"\(\s*([0-9]{1,9})\s*(?:,\s*([0-9]{1,9})\s*)?\)")

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def fail(self, expected: str) -> NoReturn:
        raise NotLossless(
            f"type {self.text!r}: at position {self.place}, expected {expected}; ORC cannot hold this type, "
            "or the text of the metastore is damaged"
        )

    def type(self) -> Types:
        match = self._WORD.match(self.text, self.place)
        kind = _KINDS.get(match.group().lower()) if match else None
        if match is None or kind is None:
            self.fail("the name of a type")
        self.place = match.end()
        if kind is TypeKind.STRUCT:
            return struct_of(self._list(self._field))
        if kind in (TypeKind.LIST, TypeKind.MAP, TypeKind.UNION):
            return self._compound(kind)
        return Types((self._with_numbers(kind),))

    def _compound(self, kind: TypeKind) -> Types:
        trees = self._list(self.type)
        if (kind is TypeKind.LIST and len(trees) != 1) or (kind is TypeKind.MAP and len(trees) != 2) or not trees:
            self.fail(f"another number of types in {_NAMES[kind]}")
        root, *rest = struct_of([("", tree) for tree in trees])
        return Types((replace(root, kind=kind, field_names=()), *rest))

    def _with_numbers(self, kind: TypeKind) -> OrcType:
        match = self._NUMBERS.match(self.text, self.place)
        if match:
            self.place = match.end()
        first, second = (int(part or 0) for part in match.groups()) if match else (0, 0)
        if kind is TypeKind.DECIMAL:
            return OrcType(kind=kind, precision=first if match else 10, scale=second)
        if kind in (TypeKind.CHAR, TypeKind.VARCHAR):
            if not first:
                self.fail("a length in parentheses")
            return OrcType(kind=kind, maximum_length=first)
        return OrcType(kind=kind)

    def _field(self) -> tuple[str, Types]:
        if match := self._QUOTED.match(self.text, self.place):
            name = match.group(1).replace("``", "`")
        elif match := self._PLAIN.match(self.text, self.place):
            name = match.group()
        else:
            self.fail("the name of a field")
        self.place = match.end()
        self._take(":")
        return name, self.type()

    def _list(self, part: Callable[[], T]) -> list[T]:
        self._take("<")
        items: list[T] = []
        while not self.text.startswith(">", self.place):
            if items:
                self._take(",")
            items.append(part())
        self.place += 1
        return items

    def _take(self, mark: str) -> None:
        if not self.text.startswith(mark, self.place):
            self.fail(repr(mark))
        self.place += len(mark)


def quoted_name(name: str) -> str:
    """Returns a field's name as it is in ORC's text of a type: ``a_1``, or ```a b``` in backticks."""
    name = valid_name(name)
    return name if UNQUOTED.fullmatch(name) else f"`{name.replace('`', '``')}`"


def valid_name(name: str) -> str:
    """Returns a field's name with U+FFFD for bytes that are not UTF-8, as Arrow, logs and databases need.

    This is safe, because rows are matched by position.
    """
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
