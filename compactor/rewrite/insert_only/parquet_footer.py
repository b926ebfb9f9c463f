"""Reads and writes the whole footer of a Parquet file, so that nothing in it is lost.

A footer is a struct in Thrift's compact protocol. All fields are kept by their numbers in ``parquet.thrift``, even unknown
ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from compactor.base.errors import BadFile, NotLossless
from compactor.orc.format.varint import read_varint, varint
from compactor.orc.io.source import Source
from compactor.settings.file_limits import FOOTER_BYTES, UNLIMITED, FileLimits, beyond, too_deep

MAGIC = b"PAR1"
ENCRYPTED = b"PARE"
_MAX_DEPTH = 64  #: of structs in a footer; the format has ten
_MAX_FIELDS = 1 << 12  #: of a struct; the format has twenty

BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
#: Fields by number, each with its Thrift type. A list is its element type and its items.
Struct: TypeAlias = dict[int, tuple[int, Any]]


#: Fields of the footer.
VERSION, SCHEMA, ROWS, ROW_GROUPS, KEY_VALUES, CREATED_BY, COLUMN_ORDERS, ENCRYPTION = range(1, 9)
_CHILDREN = 5  #: field of an entry of the schema


def read_footer(source: Source) -> Struct:
    """Returns the footer of a file.

    Raises:
        BadFile: the file is not Parquet, truncated, or beyond its source's limits.
        NotLossless: the file is encrypted.
    """
    end = source.read(source.length - 8, 8) if source.length >= 12 else b""
    if end[4:] == ENCRYPTED:
        raise NotLossless(f"{source.name}: is encrypted, which a rewrite would lose; exclude the table")
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or length > source.length - 12:
        raise BadFile(
            f"{source.name}: expected Parquet, found {source.length} bytes with another end; restore the file"
        )
    fields = parse_struct(read_part(source, source.length - 8 - length, length, "footer"), source.name, source.limits)
    _check_numbers(fields, source.name, source.limits)
    if ENCRYPTION in fields:
        raise NotLossless(f"{source.name}: has encrypted columns, which a rewrite would lose; exclude the table")
    return fields


def read_part(source: Source, start: int, length: int, part: str) -> bytes:
    """Reads a whole footer or index.

    Raises:
        BadFile: it is longer than ``source`` allows, or lies outside of the file.
    """
    if length > source.limits.footer_bytes:
        raise beyond(source.name, f"its {part} has {length} bytes", source.limits.footer_bytes, FOOTER_BYTES)
    if start < 0 or length < 0:
        raise BadFile(f"{source.name}: its {part} lies outside of the file; restore it")
    return source.read(start, length)


def _check_numbers(footer: Struct, name: str, limits: FileLimits) -> None:
    """Checks the numbers that decide how much memory and stack a reader of the output needs."""
    limits.check_stripes(name, len(_items(footer.get(ROW_GROUPS))), "row groups")
    schema = _items(footer.get(SCHEMA))
    limits.check_columns(name, len(schema))
    remaining = [1]  #: the number of columns still to come on each level
    for item in schema:
        while remaining and not remaining[-1]:
            remaining.pop()
        if not remaining:
            break
        remaining[-1] -= 1
        children = item.get(_CHILDREN, (I32, 0))[1] if isinstance(item, dict) else 0
        if isinstance(children, int) and children > 0:
            remaining.append(children)
            if len(remaining) > limits.depth:
                raise too_deep(name, len(remaining), limits.depth)


def _items(field: tuple[int, Any] | None) -> list[Any]:
    """Returns the items of a list; nothing for any other field."""
    return field[1][1] if field is not None and field[0] == LIST else []


def parse_struct(data: bytes, name: str, limits: FileLimits = UNLIMITED) -> Struct:
    """Parses the struct at the beginning of ``data``.

    Raises:
        BadFile: there is no struct, or it has more parts than a footer may have.
    """
    reader = _ThriftReader(data, limits.parts)
    try:
        return reader.struct()
    except _TooMany:
        raise limits.too_many_parts(name, "footer", limits.parts + 1) from None
    except (IndexError, ValueError, RecursionError) as error:
        raise BadFile(f"{name}: its footer is damaged ({error}); restore the file") from error


def serialize(value: Struct) -> bytes:
    """Returns ``value`` in the compact protocol, in its shortest form."""
    return b"".join(_struct(value))


class _TooMany(Exception):
    """There are more fields and items than a footer may have."""


class _ThriftReader:
    def __init__(self, data: bytes, parts: int) -> None:
        self._data = data
        self._place = 0
        self._remaining = parts
        self._depth = 0

    def struct(self) -> Struct:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise ValueError(f"structs are in each other more than {_MAX_DEPTH} deep")
        fields: Struct = {}
        number = 0
        for _ in range(_MAX_FIELDS):
            head = self._byte()
            if not head:
                break
            kind, step = head & 15, head >> 4
            number = number + step if step else self._zigzag()
            fields[number] = (kind, self._value(kind))
        else:
            raise ValueError(f"a struct has {_MAX_FIELDS} fields or more")
        self._depth -= 1
        self._remaining -= len(fields)
        if self._remaining < 0:
            raise _TooMany
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (BOOL_TRUE, BOOL_FALSE):
            return kind == BOOL_TRUE
        if kind == BYTE:
            return self._byte()
        if kind in (I16, I32, I64):
            return self._zigzag()
        if kind == DOUBLE:
            return self._take(8)
        if kind == BINARY:
            return self._take(self._varint())
        if kind in (LIST, SET):
            head = self._byte()
            count = head >> 4 if head >> 4 != 15 else self._varint()
            self._remaining -= count
            if self._remaining < 0:
                raise _TooMany
            return (head & 15, [self._item(head & 15) for _ in range(count)])
        if kind == STRUCT:
            return self.struct()
        raise ValueError(f"a field of type {kind}")

    def _item(self, kind: int) -> Any:
        return self._byte() if kind in (BOOL_TRUE, BOOL_FALSE) else self._value(kind)

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _take(self, length: int) -> bytes:
        part = self._data[self._place : self._place + length]
        if len(part) != length:
            raise ValueError("it ends too early")
        self._place += length
        return part

    def _varint(self) -> int:
        value, self._place = read_varint(self._data, self._place)
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


def _struct(fields: Struct) -> Iterator[bytes]:
    last = 0
    for number in sorted(fields):
        kind, value = fields[number]
        step = number - last
        yield bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _zigzag(number)
        if kind not in (BOOL_TRUE, BOOL_FALSE):
            yield from _value(kind, value)
        last = number
    yield b"\0"


def _value(kind: int, value: Any) -> Iterator[bytes]:
    if kind in (BOOL_TRUE, BOOL_FALSE, BYTE):
        yield bytes([value])
    elif kind in (I16, I32, I64):
        yield _zigzag(value)
    elif kind == DOUBLE:
        yield value
    elif kind == BINARY:
        yield varint(len(value)) + value
    elif kind in (LIST, SET):
        of, items = value
        yield bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + varint(len(items))
        for item in items:
            yield from _value(of, item)
    else:
        yield from _struct(value)


def _zigzag(value: int) -> bytes:
    return varint((value << 1 ^ value >> 63) & (1 << 64) - 1)
