"""Counts the positions of a row index before a decoder seeks by it.

If an entry has too few positions, the ORC C++ library reads beyond its memory.
"""

from __future__ import annotations

from collections.abc import Collection

from compactor.orc.format import messages
from compactor.orc.format.compression import Compression
from compactor.orc.format.stripe_footer import DICTIONARY, DICTIONARY_V2, PRESENT, ROW_INDEX, read_indexes
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import TEXT_KINDS, TypeKind
from compactor.orc.io.source import Source

#: The numbers of a position after its place in the file: one in a run, two for bits, none for bytes.
_RUN, _BITS, _BYTES = 1, 2, 0
_STREAMS: dict[TypeKind, tuple[int, ...]] = {
    TypeKind.BOOLEAN: (_BITS,),
    TypeKind.BYTE: (_RUN,),
    TypeKind.SHORT: (_RUN,),
    TypeKind.INT: (_RUN,),
    TypeKind.LONG: (_RUN,),
    TypeKind.DATE: (_RUN,),
    TypeKind.FLOAT: (_BYTES,),
    TypeKind.DOUBLE: (_BYTES,),
    TypeKind.BINARY: (_BYTES, _RUN),
    TypeKind.DECIMAL: (_BYTES, _RUN),
    TypeKind.TIMESTAMP: (_RUN, _RUN),
    TypeKind.TIMESTAMP_INSTANT: (_RUN, _RUN),
    TypeKind.LIST: (_RUN,),
    TypeKind.STRUCT: (),
}


def can_seek(source: Source, tail: Tail, stripe_index: int, footer: messages.Message, columns: Collection[int]) -> bool:
    """Returns true if the row indexes of ``columns`` (ids) have all positions that seeking needs.

    Raises:
        BadFile: an index cannot be read.
    """
    stripe, stride = tail.stripes[stripe_index], tail.row_index_stride
    if not stride or any(tail.types[number].kind not in (*_STREAMS, *TEXT_KINDS) for number in columns):
        return False
    groups = -(-stripe.rows // stride)
    present = {stream.column for stream in footer.streams if stream.kind == PRESENT}
    indexes = {
        number: index
        for kind, number, index in read_indexes(source, tail, stripe_index, footer, columns)
        if kind == ROW_INDEX
    }
    place = 1 if tail.compression is Compression.NONE else 2
    for number in columns:
        least = (place + _BITS if number in present else 0) + sum(
            place + more for more in _streams(tail, number, footer)
        )
        if least == 0:
            continue
        entries = indexes[number].entry if number in indexes else ()
        if len(entries) != groups or any(len(entry.positions) < least for entry in entries):
            return False
    return True


def _streams(tail: Tail, number: int, footer: messages.Message) -> tuple[int, ...]:
    kind = tail.types[number].kind
    if kind not in TEXT_KINDS:
        return _STREAMS[kind]
    return (_RUN,) if footer.columns[number].kind in (DICTIONARY, DICTIONARY_V2) else (_BYTES, _RUN)
