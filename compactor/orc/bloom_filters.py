"""Which columns of a stripe have bloom filters that an encoder can make again."""

from __future__ import annotations

from compactor.orc.source import Source
from compactor.orc.stripe_footer import BLOOM, BLOOM_UTF8, read_stripe_footer
from compactor.orc.tail import Tail
from compactor.orc.types import Kind

FALSE_POSITIVES = 0.05  #: of questions for a value that a row group has not; what ORC's writers take if nobody says
#: Whose values every writer hashes alike: as 64 bits, or by their bytes. A filter that misses a value loses its rows.
KINDS = frozenset({Kind.SHORT, Kind.INT, Kind.LONG, Kind.DATE, Kind.STRING, Kind.VARCHAR})


def filtered_columns(source: Source, tail: Tail, stripe_index: int) -> frozenset[int]:
    """Those with a filter of either kind.

    Raises:
        BadFile: the stripe's footer cannot be read.
    """
    footer = read_stripe_footer(source, tail, stripe_index)
    return frozenset(
        stream.column
        for stream in footer.streams
        if stream.kind in (BLOOM, BLOOM_UTF8) and tail.types[stream.column].kind in KINDS
    )
