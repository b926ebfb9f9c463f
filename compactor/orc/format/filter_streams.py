"""The bloom filters that a stripe's footer lists, and those for every stripe of a file (PROTOCOL 2.2).

If a stripe has no filter for a column, ORC 1.5 (Hive 3.1) looks its rows up in the filter of the stripe before, and loses
them. So a stripe that lacks a filter gets one that lets every value pass.
"""

from __future__ import annotations

from collections.abc import Collection

from compactor.orc.format import messages
from compactor.orc.format.stripe_footer import BLOOM, BLOOM_UTF8
from compactor.orc.format.tail import FilterStream

UTC_ENCODING = 1  #: of filters with texts in UTF-8 and timestamps in UTC; all filters that are encoded here have it
NO_ENCODING = -1  #: Trino records no encoding, and Java then ignores the filter


def filter_streams(footer: messages.Message) -> frozenset[FilterStream]:
    """Returns the filters that the footer of a stripe lists."""
    return frozenset(
        [
            FilterStream(stream.column, stream.kind, _encoding(footer.columns[stream.column]))
            for stream in footer.streams
            if stream.kind == BLOOM_UTF8 or stream.kind == BLOOM
        ]
    )


def _encoding(column: messages.Message) -> int:
    return column.bloom_encoding if column.HasField("bloom_encoding") else NO_ENCODING


def with_one_encoding(streams: Collection[FilterStream]) -> frozenset[FilterStream]:
    """Returns the streams with one encoding for each column: the newest."""
    encodings: dict[int, int] = {}
    for column, _, encoding in streams:
        encodings[column] = max(encoding, encodings.get(column, NO_ENCODING))
    return frozenset(FilterStream(column, kind, encodings[column]) for column, kind, _ in streams)


def open_filters(kind: int, row_groups: int) -> bytes:
    """Returns the content of a stream with a filter for each row group that lets every value pass."""
    index = messages.BloomFilterIndex()
    for _ in range(row_groups):
        if kind == BLOOM_UTF8:
            index.bloom_filter.add(num_hash_functions=1, utf8bitset=b"\xff" * 8)
        else:
            index.bloom_filter.add(num_hash_functions=1, bitset=[(1 << 64) - 1])
    return bytes(index.SerializeToString())


def set_encoding(footer: messages.Message, stream: FilterStream) -> None:
    """Writes the encoding of a column's filters into the footer of a stripe."""
    if stream.encoding == NO_ENCODING:
        footer.columns[stream.column].ClearField("bloom_encoding")
    else:
        footer.columns[stream.column].bloom_encoding = stream.encoding
