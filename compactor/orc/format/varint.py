"""Whole numbers in seven bits a byte, the lowest first, as in ORC's run lengths, protobuf and Thrift."""

from __future__ import annotations


class LongNumber(ValueError):
    """A number has more than 64 bits."""


def read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Returns the number at ``place`` and the place after it.

    Raises:
        IndexError: ``data`` ends before the number does.
        LongNumber: it has more than 64 bits.
    """
    value = shift = 0
    while True:
        byte = data[place]
        value, place = value | (byte & 127) << shift, place + 1
        if byte < 128:
            return value, place
        shift += 7
        if shift > 63:
            raise LongNumber("has a number of more than 64 bits")


def varint(value: int) -> bytes:
    """Returns the bytes of a number that is not negative."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
