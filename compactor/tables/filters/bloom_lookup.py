"""Looks up values in bloom filters of ORC files, with the hashes that ORC writers use (``BloomFilter``, ``Murmur3``)."""

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


def build_lookup(kind: TypeKind, stream: int, bloom: messages.Message) -> Callable[[Value], bool] | None:
    """Returns a function that is false for values that the filter surely does not hold; None if it cannot be used.

    It is used for integers, days, and UTF-8 texts. Other types are unreliable: the C++ library fills filters of tinyint
    wrongly, Java leaves filters of booleans empty, units of timestamps differ, chars may be padded, and floating point has
    equal values with different hashes.
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
    """Returns the hash of a value as the file stores it; None if the file stores the value in another form."""
    if isinstance(value, bytes):
        return murmur3(value) if kind in _TEXTS else None
    if kind in _TEXTS or not isinstance(value, int) or isinstance(value, bool):
        return None
    return None if kind is TypeKind.DATE and value < FIRST_GREGORIAN_DAY else long_hash(value)


def _places(hashed: int, functions: int, count: int) -> list[int]:
    first, second = _signed(hashed & _32), _signed(hashed >> 32)
    places = []
    for number in range(1, functions + 1):
        combined = _signed((first + number * second) & _32)
        places.append((~combined if combined < 0 else combined) % count)
    return places


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


def long_hash(key: int) -> int:
    """Returns Thomas Wang's 64-bit hash, like ``BloomFilter.getLongHash``."""
    key &= _64
    key = (~key + (key << 21)) & _64
    key ^= _shift_right(key, 24)
    key = (key + (key << 3) + (key << 8)) & _64
    key ^= _shift_right(key, 14)
    key = (key + (key << 2) + (key << 4)) & _64
    key ^= _shift_right(key, 28)
    return (key + (key << 31)) & _64


def _shift_right(key: int, by: int) -> int:
    """Shifts right and keeps the sign, like ``>>`` in Java."""
    return ((key - (1 << 64) if key >> 63 else key) >> by) & _64


def murmur3(data: bytes) -> int:
    """Returns the 64-bit hash of ``Murmur3.hash64``."""
    state = _SEED
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        state ^= _mix(int.from_bytes(data[at : at + 8], "little"))
        state = (_rotate(state, 27) * 5 + 0x52DCE729) & _64
    if whole < len(data):
        state ^= _mix(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        state = ((state ^ (state >> 33)) * factor) & _64
    return state ^ (state >> 33)


def _mix(word: int) -> int:
    return _rotate(word * _C1 & _64, 31) * _C2 & _64


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> (64 - by)) & _64
