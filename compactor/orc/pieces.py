"""Decodes the kept rows of one stripe as ACID rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from compactor.base.errors import NotLossless, UnforeseenKeys
from compactor.base.ids import WriteId
from compactor.orc.codecs.codec import Codec
from compactor.orc.codecs.wall_clock import shown_zone, stored_batch, wall_clock_batch
from compactor.orc.format.java_zones import UTC_NAME, JavaZone, is_utc, java_zone
from compactor.orc.format.stripe_footer import stripe_zone, writer_zone
from compactor.orc.format.tail import KeyStatistics, Tail
from compactor.orc.format.types import ACID_FIELDS, Types, acid_types
from compactor.orc.io.source import Source
from compactor.orc.widened_rows import widen_rows

#: The rows to keep: one boolean per row, as a numpy or Arrow array.
Mask: TypeAlias = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticKeys:
    """The keys that readers give to the rows of an original file.

    The stripe's first row gets ``first_row_id``.
    """

    write_id: WriteId
    bucket: int
    first_row_id: int


class Piece(NamedTuple):
    """One stripe to re-encode."""

    source: Source
    tail: Tail
    stripe_index: int
    keep: Mask | None = None  #: an entry for each row; None keeps all
    original: SyntheticKeys | None = None  #: turns the rows of an original file into ACID rows
    as_inserts: bool = False  #: turns Hive 2's update events into insert events
    dense: KeyStatistics | None = None  #: statistics from which ``keep`` follows without reading keys
    to_zone: str | None = None  #: converts wall-clock times to this zone; None keeps them in the writer's zone

    @property
    def is_whole(self) -> bool:
        """True if all rows are kept unchanged."""
        return self.keep is None and self.original is None and not self.as_inserts and self.to_zone is None


def zone_of_stripe(source: Source, tail: Tail, stripe_index: int) -> str | None:
    """Returns the zone in which a stripe's times count, with one name for all names of UTC.

    Returns None if the stripe has no such times, and an empty text if the zone is unknown.
    """
    if not tail.types.has_zoned_times:
        return None
    name = stripe_zone(source, tail, stripe_index) or tail.default_zone or ""
    return UTC_NAME if is_utc(name) else name


def lacks_zone(source: Source, tail: Tail, stripe_index: int) -> bool:
    """Returns true if a stripe with times names no zone and gets the default zone when it is re-encoded."""
    if tail.default_zone is None or not tail.types.has_zoned_times:
        return False
    return not stripe_zone(source, tail, stripe_index)


def common_zone(pieces: Iterable[Piece]) -> str | None:
    """Returns the zone of all times of ``pieces``; None if their zones differ.

    Raises:
        NotLossless: a zone is unknown.
    """
    zones = set()
    for piece in pieces:
        source, tail, stripe = piece.source, piece.tail, piece.stripe_index
        zone = piece.to_zone or zone_of_stripe(source, tail, stripe)
        zones.add(writer_zone(source, tail, stripe) if zone == "" else zone)
    zones.discard(None)
    return UTC_NAME if not zones else zones.pop() if len(zones) == 1 else None


def piece_batches(piece: Piece, codec: Codec, types: Types | None = None) -> Iterator[pa.RecordBatch]:
    """Yields the kept rows of one stripe as ACID rows of ``types`` (default: the file's own).

    Raises:
        NotLossless: the file's types do not widen to ``types``; ``keep`` is not as long as the stripe.
        UnforeseenKeys: ``keep`` follows from statistics, and a key contradicts them.
    """
    tail, start = piece.tail, 0
    stripe_rows = tail.stripes[piece.stripe_index].rows
    if piece.keep is not None and len(piece.keep) != stripe_rows:
        raise NotLossless(
            f"file {tail.name}, stripe {piece.stripe_index}: a mask of {len(piece.keep)} rows, it has {stripe_rows}"
        )
    own_types = acid_types(tail.types) if piece.original else tail.types
    changes = None if piece.to_zone is None else _ZoneChange.between(piece, piece.to_zone)
    for batch in codec.read_batches(piece.source, tail, stripes=[piece.stripe_index]):
        rows = batch.num_rows
        if changes is not None:
            batch = changes.apply(batch, tail.types)
        if piece.dense is not None:
            _check_dense(batch, piece, piece.dense, start)
        if piece.original:
            batch = _with_keys(batch, piece.original, start, codec.schema(own_types))
        if piece.keep is not None:
            batch = batch.filter(pa.array(piece.keep[start : start + rows], pa.bool_()))
        start += rows
        if piece.as_inserts:
            batch = batch.set_column(0, batch.schema.field(0), pa.array(np.zeros(batch.num_rows, np.int32)))
        if batch.num_rows:
            yield widen_rows(batch, own_types, types, codec, tail.name) if types is not None else batch
    if start != stripe_rows:
        raise NotLossless(
            f"file {tail.name}, stripe {piece.stripe_index}: {start} rows were decoded, the footer says {stripe_rows}"
        )


class _ZoneChange(NamedTuple):
    """The zones that times of a stripe come from and go to; None for UTC."""

    source: JavaZone | None
    target: JavaZone | None

    @classmethod
    def between(cls, piece: Piece, name: str) -> _ZoneChange:
        source = shown_zone(piece.source, piece.tail, piece.stripe_index)
        return cls(source, None if is_utc(name) else java_zone(name))

    def apply(self, batch: pa.RecordBatch, types: Types) -> pa.RecordBatch:
        columns = types[0].children
        if self.source is not None:
            batch = wall_clock_batch(batch, types, columns, self.source)
        return batch if self.target is None else stored_batch(batch, types, columns, self.target)


def _check_dense(batch: pa.RecordBatch, piece: Piece, expected: KeyStatistics, start: int) -> None:
    first = expected.row_id.minimum + start
    expected_columns: tuple[Any, ...] = (
        expected.operation.minimum,
        expected.original_transaction.minimum,
        expected.bucket.minimum,
        np.arange(first, first + batch.num_rows),
        expected.current_transaction.minimum,
    )
    for column, values, name in zip(batch.columns, expected_columns, ACID_FIELDS, strict=False):
        if column.null_count or not np.all(column.to_numpy() == values):
            raise UnforeseenKeys(
                f"file {piece.tail.name}, stripe {piece.stripe_index}: its {name} differs in some row from what the "
                "stripe's statistics and the order of an ACID file imply; all its keys must be read first"
            )


def _with_keys(batch: pa.RecordBatch, keys: SyntheticKeys, start: int, schema: pa.Schema) -> pa.RecordBatch:
    rows = batch.num_rows
    first = keys.first_row_id + start
    write_ids = pa.array(np.full(rows, keys.write_id, np.int64))
    row = (
        pa.StructArray.from_arrays(batch.columns, fields=list(schema.field("row").type))
        if batch.num_columns
        else pa.array([{}] * rows, pa.struct([]))
    )
    return pa.RecordBatch.from_arrays(
        [
            pa.array(np.zeros(rows, np.int32)),
            write_ids,
            pa.array(np.full(rows, keys.bucket, np.int32)),
            pa.array(np.arange(first, first + rows, dtype=np.int64)),
            write_ids,
            row,
        ],
        schema=schema,
    )
