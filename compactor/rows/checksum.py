"""A checksum of rows that does not depend on their order.

Every row is hashed to 64 bits, and the hashes are added modulo 2**64. A changed, lost or duplicate value changes the sum.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from compactor.orc.codecs.arrow_types import Array

Hashes: TypeAlias = npt.NDArray[np.uint64]
MODULUS = 1 << 64
_NULL, _STEP = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def checksum(rows: Array) -> int:
    """Returns the sum of the hashes of an array's values modulo 2**64.

    Sums of several arrays can be added likewise.
    """
    return int(_hashes(rows).sum(dtype=np.uint64))


def _mix(values: Hashes) -> Hashes:
    """Scatters each number over all 64 bits (the finalizer of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _hashes(array: Array) -> Hashes:
    kind = array.type
    if pa.types.is_struct(kind):
        hashes = np.full(len(array), len(kind), dtype=np.uint64)
        for child in array.flatten():
            hashes = _mix(hashes * _STEP + _hashes(child))
    elif pa.types.is_list(kind):
        hashes = _hash_lists(array, _hashes(array.values))
    elif pa.types.is_map(kind):
        hashes = _hash_lists(array, _mix(_hashes(array.keys) * _STEP + _hashes(array.items)))
    else:
        hashes = _hash_plain(array)
    if array.null_count:
        hashes[np.asarray(array.is_null())] = _NULL
    return hashes


def _hash_lists(array: Array, elements: Hashes) -> Hashes:
    """Returns the hashes of lists from those of their ``elements`` and the elements' positions."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    start = np.repeat(offsets[:-1], np.diff(offsets))
    places = np.arange(offsets[0], offsets[-1]) - start
    placed = _mix(elements[offsets[0] : offsets[-1]] + places.astype(np.uint64) * _STEP)
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(placed, dtype=np.uint64)])
    ends = offsets - offsets[0]
    return _mix(sums[ends[1:]] - sums[ends[:-1]] + np.diff(offsets).astype(np.uint64) * _STEP)


def _hash_plain(array: Array) -> Hashes:
    """Returns the hashes of values without parts: numbers by their bits, others by their bytes."""
    kind = array.type
    if pa.types.is_integer(kind):
        return _mix(_fill_nulls(array.cast(pa.int64())).view(np.uint64))
    if pa.types.is_floating(kind):
        bits = np.uint32 if kind.bit_width == 32 else np.uint64
        return _mix(_fill_nulls(array).view(bits).astype(np.uint64))
    if pa.types.is_date32(kind):
        return _mix(_fill_nulls(array.view(pa.int32())).astype(np.int64).view(np.uint64))
    if pa.types.is_timestamp(kind):
        return _mix(_fill_nulls(array.view(pa.int64())).view(np.uint64))
    if pa.types.is_string(kind):
        array = array.cast(pa.binary())  # a text may not be UTF-8
    coded = array.dictionary_encode()
    distinct = np.array([_hash_value(value) for value in coded.dictionary.to_pylist()], dtype=np.uint64)
    if not len(distinct):
        return np.zeros(len(array), dtype=np.uint64)
    hashes: Hashes = distinct[_fill_nulls(coded.indices)]
    return hashes


def _fill_nulls(array: Array) -> npt.NDArray[np.generic]:
    """Returns the values as a numpy array, with 0 for NULL."""
    whole = array.fill_null(0) if array.null_count else array
    return np.array(whole.to_numpy(zero_copy_only=False))


def _hash_value(value: object) -> int:
    data = value if isinstance(value, bytes) else str(value).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
