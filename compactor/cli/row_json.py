"""Converts rows of an ORC file to JSON, in the format of ``orcfiledump -d`` (``orc.codecs.json_values``).

Timestamps beyond 64 bits of nanoseconds come from the second codec as seconds and nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from compactor.base.errors import NotLossless
from compactor.orc.codecs.choice import ARROW, PYORC
from compactor.orc.codecs.codec import Unfit, column_names
from compactor.orc.codecs.json_values import value
from compactor.orc.codecs.wall_clock import shown_zone, wall_clock_batch
from compactor.orc.format.java_zones import JavaZone
from compactor.orc.format.tail import Tail
from compactor.orc.io.source import Source


def rows(source: Source, tail: Tail) -> Iterator[dict[str, object]]:
    """Yields every row in file order; memory is bounded by a batch of rows.

    Raises:
        BadFile: a stripe cannot be decoded.
        NotLossless: neither codec decodes a type completely (unions), or columns are encrypted.
    """
    names = column_names(tail.types)
    children = tail.types[0].children
    for batch in batches(source, tail):
        for index in range(batch.num_rows):
            yield {
                name: value(batch.column(place)[index], tail.types, child)
                for place, (name, child) in enumerate(zip(names, children, strict=True))
            }


def batches(source: Source, tail: Tail) -> Iterator[pa.RecordBatch]:
    """Yields the rows of ``rows`` as they are decoded; raises as it does."""
    if tail.encrypted:
        raise NotLossless(f"{tail.name}: has encrypted columns; its rows cannot be shown, its metadata can (--meta)")
    for stripe in range(len(tail.stripes)):
        yield from _stripe(source, tail, stripe)


def _stripe(source: Source, tail: Tail, stripe: int) -> Iterator[pa.RecordBatch]:
    done, zone = 0, shown_zone(source, tail, stripe)
    if tail.types.is_encodable:
        try:
            for batch in ARROW.read_batches(source, tail, stripes=[stripe]):
                yield _shown(batch, tail, zone)
                done += batch.num_rows
            return
        except Unfit:
            pass  # the other codec starts over and skips the rows that are done
    for batch in PYORC.read_batches(source, tail, stripes=[stripe]):
        left = max(0, done)
        done -= batch.num_rows
        if left < batch.num_rows:
            yield _shown(batch.slice(left), tail, zone)


def _shown(batch: pa.RecordBatch, tail: Tail, zone: JavaZone | None) -> pa.RecordBatch:
    return batch if zone is None else wall_clock_batch(batch, tail.types, tail.types[0].children, zone)
