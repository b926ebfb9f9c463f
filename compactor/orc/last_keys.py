"""The key of each stripe's last row, which a file's key index holds."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from compactor.acid.bucket import RowId
from compactor.base.errors import NotLossless
from compactor.base.ids import WriteId
from compactor.orc.codecs.choice import ARROW
from compactor.orc.codecs.codec import KEYS
from compactor.orc.format.tail import Tail, key_statistics
from compactor.orc.io.source import Source


def read_keys(source: Source, tail: Tail, stripe_index: int) -> Iterator[pa.RecordBatch]:
    """Yields the five key columns of one stripe of an ACID file without decoding ``row``."""
    yield from ARROW.read_batches(source, tail, columns=KEYS, stripes=[stripe_index])


def last_key(source: Source, tail: Tail, stripe_index: int) -> RowId:
    """Returns the key of a stripe's last row, from its statistics or its keys.

    Statistics suffice if write ID and bucket are constant, since the ACID format sorts rows (PROTOCOL 2.3).

    Raises:
        NotLossless: the stripe has no rows.
        BadFile: the keys cannot be decoded.
    """
    known = key_statistics(tail, stripe_index)
    if known and all(part.minimum == part.maximum for part in (known.original_transaction, known.bucket)):
        return RowId(WriteId(known.original_transaction.maximum), known.bucket.maximum, known.row_id.maximum)
    last: RowId | None = None
    for batch in read_keys(source, tail, stripe_index):
        last = last_key_of_batch(batch)
    if last is None:
        raise NotLossless(f"file {tail.name}, stripe {stripe_index}: it has no rows, hence no last key")
    return last


def last_key_of_batch(batch: pa.RecordBatch) -> RowId:
    """Returns the key of the last row of an ACID file's batch."""
    write_id, bucket, row_id = (batch.column(place)[batch.num_rows - 1].as_py() for place in KEYS[1:4])
    return RowId(WriteId(write_id), bucket, row_id)
