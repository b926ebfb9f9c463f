"""Reads and writes the whole footer of a Parquet file, so that nothing in it is lost.

It is a struct in Thrift's compact protocol. Fields are kept by their numbers, unknown ones too. Numbers are those of
``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from compactor.errors import BadFile, NotLossless
from compactor.orc.io.source import Source

MAGIC = b"PAR1"
ENCRYPTED = b"PARE"
_MAX_BYTES = 1 << 30  #: of a footer; more is damage

BOOL_TRUE, BOOL_FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
#: Fields by number, each with its Thrift type. A list is its element type and its items.
Struct: TypeAlias = dict[int, tuple[int, Any]]


#: Fields of the footer.
VERSION, SCHEMA, ROWS, ROW_GROUPS, KEY_VALUES, CREATED_BY, COLUMN_ORDERS, ENCRYPTION = range(1, 9)


def read_footer(source: Source) -> Struct:
    """Returns the footer of a file.

    Raises:
        BadFile: the file is not Parquet, or truncated.
        NotLossless: the file is encrypted.
    """
    end = source.read(source.length - 8, 8) if source.length >= 12 else b""
    if end[4:] == ENCRYPTED:
        raise NotLossless(f"{source.name}: is encrypted, which a rewrite would lose; exclude the table")
    length = int.from_bytes(end[:4], "little")
    if end[4:] != MAGIC or length > min(_MAX_BYTES, source.length - 12):
        raise BadFile(
            f"{source.name}: expected Parquet, found {source.length} bytes with another end; restore the file"
        )
    found = parse_struct(source.read(source.length - 8 - length, length), source.name)
    if ENCRYPTION in found:
        raise NotLossless(f"{source.name}: has encrypted columns, which a rewrite would lose; exclude the table")
    return found


def parse_struct(data: bytes, name: str) -> Struct:
    """Returns the struct that ``data`` begins with.

    Raises:
        BadFile: there is none.
    """
    try:
        return _ThriftReader(data).struct()
    except (IndexError, ValueError, RecursionError) as error:
        raise BadFile(f"{name}: its footer is damaged ({error}); restore the file") from error


def serialize(value: Struct) -> bytes:
    """Returns ``value`` in the compact protocol, in its shortest form."""
    return b"".join(_struct(value))


class _ThriftReader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def struct(self) -> Struct:
        fields: Struct = {}
        number = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            number = number + step if step else self._zigzag()
            fields[number] = (kind, self._value(kind))
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
        value = shift = 0
        while True:
            part = self._byte()
            value |= (part & 127) << shift
            if part < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("a number is too long")

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
        yield _varint(len(value)) + value
    elif kind in (LIST, SET):
        of, items = value
        yield bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + _varint(len(items))
        for item in items:
            yield from _value(of, item)
    else:
        yield from _struct(value)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _zigzag(value: int) -> bytes:
    return _varint((value << 1 ^ value >> 63) & (1 << 64) - 1)
