"""Looks values up in bloom filters of ORC files, by the hashes that ORC's writers use (``BloomFilter``, ``Murmur3``)."""

from __future__ import annotations

from collections.abc import Callable

from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM_UTF8
from compactor.orc.format.types import TypeKind
from compactor.orc.stripe_compatibility import FIRST_GREGORIAN_DAY
from compactor.tables.filters.conditions import Value

_64, _32 = (1 << 64) - 1, (1 << 32) - 1
_SEED, _C1, _C2 = 104_729, 0x87C37B91114253D5, 0x4CF5AD432745937F
_INTEGERS = frozenset({TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.DATE})
_TEXTS = frozenset({TypeKind.STRING, TypeKind.VARCHAR})


def lookup(kind: TypeKind, stream: int, bloom: messages.Message) -> Callable[[Value], bool] | None:
    """Returns a function that is false for values that the filter surely does not hold; None if it cannot be asked.

    It is asked for integers, days, and texts by their UTF-8 bytes. Not for others: the library in C++ fills those of tinyint
    wrongly, Java leaves those of booleans empty, the units of timestamps differ, a char may be padded, and floating point
    has values that are equal with another hash.
    """
    if stream != BLOOM_UTF8 and kind in _TEXTS:
        return None  # hashed in the writer's own character set (ORC-101)
    bits = bloom.utf8bitset or b"".join(word.to_bytes(8, "little") for word in bloom.bitset)
    count, functions = 8 * len(bits), bloom.num_hash_functions

    def holds(value: Value) -> bool:
        hashed = _hash(value, kind)
        return hashed is None or all(bits[at >> 3] >> (at & 7) & 1 for at in _places(hashed, functions, count))

    return holds if kind in _INTEGERS | _TEXTS and count else None


def _hash(value: Value, kind: TypeKind) -> int | None:
    """Returns the hash of a value as the file has it; None if it has it in another form."""
    if isinstance(value, bytes):
        return murmur3(value) if kind in _TEXTS else None
    if kind in _TEXTS or not isinstance(value, int) or isinstance(value, bool):
        return None
    return None if kind is TypeKind.DATE and value < FIRST_GREGORIAN_DAY else long_hash(value)


def _places(hashed: int, functions: int, count: int) -> list[int]:
    first, second = _signed(hashed & _32), _signed(hashed >> 32)
    found = []
    for number in range(1, functions + 1):
        combined = _signed((first + number * second) & _32)
        found.append((~combined if combined < 0 else combined) % count)
    return found


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def long_hash(key: int) -> int:
    """Returns Thomas Wang's hash of 64 bits, as ``BloomFilter.getLongHash`` does."""
    key &= _64
    key = (~key + (key << 21)) & _64
    key ^= _shifted(key, 24)
    key = (key + (key << 3) + (key << 8)) & _64
    key ^= _shifted(key, 14)
    key = (key + (key << 2) + (key << 4)) & _64
    key ^= _shifted(key, 28)
    return (key + (key << 31)) & _64


def _shifted(key: int, by: int) -> int:
    """Shifts right with the sign, as Java's ``>>`` does."""
    return ((key - (1 << 64) if key >> 63 else key) >> by) & _64


def murmur3(data: bytes) -> int:
    """Returns the 64-bit hash of ``Murmur3.hash64``."""
    found = _SEED
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        found ^= _mixed(int.from_bytes(data[at : at + 8], "little"))
        found = (_rotated(found, 27) * 5 + 0x52DCE729) & _64
    if whole < len(data):
        found ^= _mixed(int.from_bytes(data[whole:], "little"))
    found ^= len(data)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        found = ((found ^ (found >> 33)) * factor) & _64
    return found ^ (found >> 33)


def _mixed(word: int) -> int:
    return _rotated(word * _C1 & _64, 31) * _C2 & _64


def _rotated(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & _64
