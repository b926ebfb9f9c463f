"""The row indexes and bloom filters of a stripe, column by column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from compactor.base.errors import BadFile
from compactor.cli.orcfiledump.column_statistics import statistics_text
from compactor.cli.orcfiledump.java_text import float_text, rounded
from compactor.cli.orcfiledump.writers import HIVE_12055, ORC_135
from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8, ROW_INDEX, read_indexes
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TEXT_KINDS, TypeKind
from compactor.orc.io.source import Source

_TIMES = (TypeKind.TIMESTAMP, TypeKind.TIMESTAMP_INSTANT)


@dataclass(slots=True)
class _Indexes:
    """The indexes of one column; a filter over characters of UTF-8 replaces an older one."""

    rows: messages.Message | None = None
    filters: dict[int, messages.Message] = field(default_factory=dict)

    @property
    def filter(self) -> messages.Message | None:
        return self.filters.get(BLOOM_UTF8, self.filters.get(BLOOM))


def index_lines(
    source: Source, tail: Tail, stripe_index: int, footer: messages.Message, columns: Sequence[int]
) -> Iterator[str]:
    """Yields the lines about ``columns`` of one stripe, in their order.

    Raises:
        BadFile: an index cannot be read.
    """
    found: Mapping[int, _Indexes] = {column: _Indexes() for column in columns}
    for kind, column, index in read_indexes(source, tail, stripe_index, footer, frozenset(columns)):
        if kind == ROW_INDEX:
            found[column].rows = index
        elif kind == BLOOM_UTF8 or _is_right(tail, column):
            found[column].filters[kind] = index
    for column in columns:
        yield f"    Row group indices for column {column}:" + ("" if found[column].rows else " not found")
        if found[column].rows is None:
            yield ""
        else:
            yield from _entries(found[column].rows, tail, column)
        if (filters := found[column].filter) is not None:
            yield from _filters(filters, tail, column)


def _is_right(tail: Tail, column: int) -> bool:
    """Returns true if readers may use a filter of the older kind: earlier writers hashed some values wrongly."""
    if tail.writer != 0:
        return True
    kind = tail.types[column].kind
    if kind in TEXT_KINDS or kind is TypeKind.DECIMAL:
        return tail.writer_version >= HIVE_12055
    return kind not in _TIMES or tail.writer_version >= ORC_135


def _entries(index: messages.Message, tail: Tail, column: int) -> Iterator[str]:
    for number, entry in enumerate(index.entry):
        known = "no stats at "
        if entry.HasField("statistics"):
            known = statistics_text(entry.statistics, tail.types[column], proleptic=tail.is_proleptic)
        yield f"      Entry {number}: {known} positions: {','.join(map(str, entry.positions))}"


def _filters(index: messages.Message, tail: Tail, column: int) -> Iterator[str]:
    yield f"    Bloom filters for column {column}:"
    whole: np.ndarray[tuple[int], np.dtype[np.uint8]] | None = None
    hashes = 0
    for number, item in enumerate(index.bloom_filter):
        bits = _bits(item)
        yield f"      Entry {number}:{_filter_text(bits, item.num_hash_functions)}"
        if whole is not None and (len(whole), hashes) != (len(bits), item.num_hash_functions):
            raise BadFile(
                f"file {tail.name}: the bloom filters of column {column} differ in size or in their functions; the file is "
                "damaged, restore it or move it away"
            )
        whole, hashes = bits if whole is None else whole | bits, item.num_hash_functions
    if whole is not None:
        yield f"      Stripe level merge:{_filter_text(whole, hashes)}"


def _bits(item: messages.Message) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    data = bytes(item.utf8bitset) or np.array(item.bitset, np.uint64).tobytes()
    return np.frombuffer(data, np.uint8, count=len(data) // 8 * 8)


def _filter_text(bits: np.ndarray[tuple[int], np.dtype[np.uint8]], hashes: int) -> str:
    count, ones = 8 * len(bits), int(np.unpackbits(bits).sum())
    load = float(np.float32(ones) / np.float32(count)) if count else float("nan")
    return (
        f" numHashFunctions: {hashes} bitCount: {count} popCount: {ones} loadFactor: {rounded(load, 4)} "
        f"expectedFpp: {float_text(load**hashes)}"
    )
