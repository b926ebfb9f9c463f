"""Encodes rows of stripes as new stripes if rows are removed or the class or types change (DESIGN 4).

Every function writes one complete local ORC file of the class of ``like``. ``assembler`` can then copy its stripes into the
target. If writing fails, nothing of the file remains.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from compactor.base.errors import BadFile, NotLossless
from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.bloom_filters import Ambiguous, check_hashes
from compactor.orc.codecs.choice import ARROW, with_codec
from compactor.orc.codecs.codec import Codec, Unfit
from compactor.orc.codecs.index_mending import mend_indexes
from compactor.orc.codecs.stripe_view import batch_rows, can_decode_together
from compactor.orc.format.java_zones import UTC_NAME, is_utc
from compactor.orc.format.statistics import MENDED_KINDS
from compactor.orc.format.tail import Tail
from compactor.orc.format.tail_writer import Metadata, no_metadata, replace_tail
from compactor.orc.format.types import Types
from compactor.orc.last_keys import last_key_of_batch
from compactor.orc.pieces import Piece, common_zone, piece_batches
from compactor.orc.read_back import ValueDigest, check_values, check_zone
from compactor.orc.stripe_compatibility import calendars_agree
from compactor.orc.widened_rows import widen_rows

Result = TypeVar("Result")
log = logging.getLogger(__name__)
JOINT_BYTES, JOINT_ROWS = 256 * 1024, 16_384  #: limits of stripes that are decoded together
JOINED_BYTES = 1024 * 1024  #: decoded bytes up to which small batches are written together


def reencode(
    pieces: Sequence[Piece],
    path: str | os.PathLike[str],
    *,
    like: Tail,
    types: Types,
    metadata: Metadata = no_metadata,
) -> Tail:
    """Writes the kept rows of ``pieces`` to a file of ``types`` at ``path``, and returns its tail.

    Raises:
        NotLossless: the rows do not fit ``types`` or the calendar of ``like``, cannot be decoded completely, or their times
            count in different zones.
    """
    for piece in pieces:
        check_calendar(piece.tail, like)
    zone = require_one_zone(path, pieces)

    def rows(codec: Codec) -> Iterator[pa.RecordBatch]:
        return concatenate_small_batches(batch for run in _runs(pieces) for batch in _run_batches(run, codec, types))

    def encode(filtered: frozenset[int]) -> Tail:
        return with_codec(
            [types, *(piece.tail.types for piece in pieces)],
            lambda codec: encode_acid(
                rows(codec), path, like=like, types=types, metadata=metadata, codec=codec, filtered=filtered, zone=zone
            ),
        )

    return with_filters(path, like, encode)


def require_one_zone(path: str | os.PathLike[str], pieces: Sequence[Piece]) -> str:
    """Returns the one zone of all times of ``pieces``, which will be encoded together.

    Raises:
        NotLossless: there are several zones, or a zone is unknown.
    """
    zone = common_zone(pieces)
    if zone is None:
        raise NotLossless(f"{path}: its rows come from stripes of several time zones, which one stripe cannot name")
    return zone


def with_filters(path: str | os.PathLike[str], like: Tail, encode: Callable[[frozenset[int]], Result]) -> Result:
    """Calls ``encode`` with the columns that have bloom filters in ``like``, and returns its result.

    If the values of some columns cannot have filters, calls it again with fewer columns.
    """
    filtered = frozenset() if like.filters is None else like.filters.encoded
    while True:
        try:
            return encode(filtered)
        except Ambiguous as reason:
            log.info("%s gets fewer bloom filters: %s", path, reason)
            filtered -= reason.columns


def _runs(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Groups neighbours that can be decoded together: small whole stripes of similar files.

    Opening such a stripe costs more than decoding it.
    """
    run: list[Piece] = []
    size = rows = 0
    for piece in pieces:
        stripe = piece.tail.stripes[piece.stripe_index]
        size, rows = size + stripe.length, rows + stripe.rows
        fits = size <= JOINT_BYTES and rows <= JOINT_ROWS and piece.is_whole
        if run and not (fits and run[-1].is_whole and can_decode_together(run[-1].tail, piece.tail)):
            yield run
            run, size, rows = [], stripe.length, stripe.rows
        run.append(piece)
    if run:
        yield run


def _run_batches(run: Sequence[Piece], codec: Codec, types: Types) -> Iterator[pa.RecordBatch]:
    tail = run[0].tail
    if len(run) > 1 and codec is ARROW and _is_narrow(run):
        try:
            batch = arrow_codec.read_joint([(piece.source, piece.tail, piece.stripe_index) for piece in run])
        except (Unfit, BadFile) as error:
            log.info("small stripes are decoded one by one: %s", error)  # which names the file that it applies to
        else:
            if batch.num_rows == sum(piece.tail.stripes[piece.stripe_index].rows for piece in run):
                yield widen_rows(batch, tail.types, types, codec, tail.name)
                return
    for piece in run:
        yield from piece_batches(piece, codec, types)


def _is_narrow(run: Sequence[Piece]) -> bool:
    """Returns true if all rows of ``run`` may be decoded together (PROTOCOL 2.4)."""
    rows = sum(piece.tail.stripes[piece.stripe_index].rows for piece in run)
    return all(rows <= batch_rows(piece.tail, [piece.stripe_index], None) for piece in run)


def encode_acid(
    batches: Iterable[pa.RecordBatch],
    path: str | os.PathLike[str],
    *,
    like: Tail,
    types: Types,
    metadata: Metadata = no_metadata,
    codec: Codec = ARROW,
    filtered: Collection[int] = (),
    zone: str = UTC_NAME,
) -> Tail:
    """Writes batches of ``codec.schema(types)`` to a file of the class of ``like`` and returns its tail.

    The footer has exactly ``types``, the columns ``filtered`` have bloom filters, and each stripe names ``zone`` as its
    writer's zone. The timestamps of ``batches`` count in it as if it were UTC. The file is read back.

    Raises:
        Unfit: ``codec`` is Arrow's and would lose something; start again with ``PYORC`` (as ``with_codec`` does).
        Ambiguous: some columns cannot have bloom filters; start again without them.
        VerificationFailed: read back, the file does not hold the rows that were written.
    """
    last: pa.RecordBatch | None = None
    written = ValueDigest(types)
    try:
        with codec.writer(path, like=like, types=types, filtered=filtered) as writer:
            for batch in batches:
                check_hashes(batch, types, filtered)
                written.add(batch)
                writer.write(batch)
                last = batch if batch.num_rows else last
        check_values(path, types, written, codec)
        if not is_utc(zone) or any(item.kind in MENDED_KINDS for item in types):
            mend_indexes(path, zone)
        last_row = last_key_of_batch(last) if last is not None and types.is_acid else None
        tail = replace_tail(path, like, types, metadata, last_row)
        check_zone(path, tail, zone)
        return tail
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise


def concatenate_small_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Concatenates small batches, because writing a batch costs more than writing a few rows."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if size + batch.nbytes > JOINED_BYTES:
            yield from _concatenate(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += batch.nbytes
    yield from _concatenate(waiting)


def _concatenate(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    together: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return together


def check_calendar(tail: Tail, like: Tail) -> None:
    """Refuses to write days of one calendar to a file of another, unless calendars agree on these days.

    Values are copied without conversion.

    Raises:
        NotLossless: a column may hold days before 1582-10-15.
    """
    if calendars_agree(tail, like):
        return
    raise NotLossless(
        f"file {tail.name}: its calendar is {tail.calendar}, that of {like.name} is {like.calendar}, and it may hold "
        "days before 1582-10-15; rewrite the partition with INSERT OVERWRITE"
    )
