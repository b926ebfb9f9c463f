"""Proves an output file before anything is named, and compares it with its inputs.

``--verify full`` compares; see PROTOCOL 4.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from compactor.acid.bucket import RowId
from compactor.base.errors import VerificationFailed
from compactor.base.ids import WriteId
from compactor.orc.codecs.choice import with_codec
from compactor.orc.codecs.codec import Codec
from compactor.orc.codecs.index_mending import text_indexes_for_orc_1_5
from compactor.orc.format import messages
from compactor.orc.format.acid_metadata import KEY_INDEX, key_index
from compactor.orc.format.stripe_footer import (
    BLOOM,
    BLOOM_UTF8,
    ROW_INDEX,
    check_key_index,
    filter_streams,
    read_stripe_footer,
)
from compactor.orc.format.tail import Tail, read_tail
from compactor.orc.format.types import Types
from compactor.orc.io.file_pool import FilePool
from compactor.orc.io.source import LocalSource, Source, crc32
from compactor.orc.last_keys import read_keys
from compactor.orc.pieces import Piece, common_zone, piece_batches
from compactor.orc.point_check import check_filters, check_points
from compactor.rewrite.full_acid.delete_events import Deletes
from compactor.rows.checksum import MODULUS, checksum
from compactor.rows.delete_files import BATCH_ROWS, Block, Events
from compactor.rows.keys import (
    CURRENT,
    DELETE,
    KEY,
    OPERATION,
    KeyBlock,
    Numbers,
    is_sorted,
    keys_of_events,
    sort_order,
    to_numbers,
)


def verify_file(path: str, last_keys: Sequence[RowId], *, rows: int, full: bool, deletes: Deletes | None) -> Tail:
    """Checks the file at ``path``; see ``verify_source``."""
    with FilePool() as few:
        return verify_source(few.open(partial(LocalSource, path)), last_keys, rows=rows, full=full, deletes=deletes)


def verify_source(
    source: Source, last_keys: Sequence[RowId], *, rows: int, full: bool, deletes: Deletes | None
) -> Tail:
    """Checks that a file holds ``rows`` rows in stripes that end with ``last_keys``, and returns its tail.

    A count alone would accept broken files. So the last key of each stripe is looked up through the stripe's statistics
    and row index, as a reader does it.

    Args:
        full: also decode every key, and check that they rise strictly and that no deleted key is among them.
        deletes: None if keys alone do not decide which rows are deleted.

    Raises:
        VerificationFailed: a check fails.
        BadFile: the file cannot be read, or rows in it cannot be looked up.
    """
    tail = read_tail(source)
    if tail.rows != rows or len(tail.stripes) != len(last_keys):
        raise VerificationFailed(
            f"{source.name}: {tail.rows} rows in {len(tail.stripes)} stripes, expected {rows} in {len(last_keys)}; nothing "
            "was changed, please report this"
        )
    if tail.user_metadata.get(KEY_INDEX) != key_index(last_keys):
        raise VerificationFailed(f"{source.name}: its key index is not that of its stripes; nothing was changed")
    _check_indexes(source, tail)
    check_filters(source, tail)
    check_points(source, tail, last_keys)
    if full:
        _check_keys(source, tail, deletes)
    return tail


def _check_indexes(source: Source, tail: Tail) -> None:
    """Checks that all stripes have statistics and row indexes that agree, so readers can look up rows."""
    if not tail.complete_statistics:
        raise VerificationFailed(f"{tail.name}: not every stripe has statistics of its rows; nothing was changed")
    for stripe in range(len(tail.stripes)):
        check_key_index(source, tail, stripe, read_stripe_footer(source, tail, stripe))


def _check_keys(source: Source, tail: Tail, deletes: Deletes | None) -> None:
    before: KeyBlock | None = None
    for stripe in range(len(tail.stripes)):
        for batch in read_keys(source, tail, stripe):
            block = keys_of_events(batch)
            whole = block if before is None else np.concatenate([before, block])
            if not is_sorted(whole) or (deletes is not None and deletes.hits(block).any()):
                raise VerificationFailed(
                    f"{tail.name}, stripe {stripe}: its keys do not rise strictly, or a deleted row is among them; nothing "
                    "was changed, please report this"
                )
            before = block[-1:]


def check_same_rows(pieces: Sequence[Piece], path: str, types: Types) -> None:
    """Checks that the file at ``path`` holds exactly the kept rows of ``pieces``, in the same zone.

    Decodes all rows once more.

    Raises:
        VerificationFailed: the rows or the zones differ.
    """
    with LocalSource(path) as source:
        tail = read_tail(source)
        written_pieces = [Piece(source=source, tail=tail, stripe_index=stripe) for stripe in range(len(tail.stripes))]
        zone = common_zone(pieces)
        if types.has_zoned_times and common_zone(written_pieces) != zone:
            raise VerificationFailed(
                f"{path}: its times count in {common_zone(written_pieces)}, those of its inputs in {zone}; nothing was "
                "changed, please report this"
            )
        read, written = with_codec(
            [types, *(piece.tail.types for piece in pieces)],
            lambda codec: (_total(pieces, codec, types), _total(written_pieces, codec, types)),
        )
    if read != written:
        raise VerificationFailed(
            f"{path}: the rows read have the checksum {read:016x}, the rows written {written:016x}; nothing was changed, "
            "please report this"
        )


def _total(pieces: Iterable[Piece], codec: Codec, types: Types) -> int:
    return sum(checksum(_rows(batch)) for piece in pieces for batch in piece_batches(piece, codec, types)) % MODULUS


def _rows(batch: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))


def check_same_events(read: Iterable[Block], first: WriteId, kept: str | None, applied: Events) -> None:
    """Checks that delete events were kept or applied, and none lost or doubled.

    Args:
        read: all events.
        first: the events for rows inserted before this write ID must be kept, the others applied.
        kept: path of the file with the kept events, in the order of their keys; None if there is no file.
        applied: the applied events.

    Raises:
        VerificationFailed: events are missing, superfluous or out of order.
    """
    sums = [0, 0]
    for keys, current in read:
        late = keys["write_id"] >= first
        sums = [so_far + _sum_of(keys[of], current[of]) for so_far, of in zip(sums, (~late, late), strict=True)]
    kept_sum = sum(_sum_of(*block) for block in _events_in(kept)) if kept is not None else 0
    parts = (applied.part(start, start + BATCH_ROWS) for start in range(0, len(applied), BATCH_ROWS))
    sums_after = [kept_sum, sum(_sum_of(part.keys, part.current) for part in parts)]
    for was, became, what in zip(sums, sums_after, (f"kept in {kept or 'no file'}", "applied"), strict=True):
        if was % MODULUS != became % MODULUS:
            raise VerificationFailed(
                f"the delete events to be {what} have the checksum {was % MODULUS:016x}, those that are "
                f"{became % MODULUS:016x}; nothing was changed, please report this"
            )


def _sum_of(keys: KeyBlock, current: Numbers) -> int:
    columns = [*(np.ascontiguousarray(keys[name]) for name in KEY.fields or ()), current]
    return checksum(pa.StructArray.from_arrays([pa.array(column) for column in columns], names=["w", "b", "r", "c"]))


def _events_in(path: str) -> Iterator[Block]:
    before = np.empty(0, KEY)
    with LocalSource(path) as source:
        tail = read_tail(source)
        for stripe in range(len(tail.stripes)):
            for batch in read_keys(source, tail, stripe):
                keys = keys_of_events(batch)
                together = np.concatenate([before, keys])
                if not np.array_equal(together[sort_order(together)], together):
                    raise VerificationFailed(
                        f"{path}, stripe {stripe}: its delete events are not in the order of their keys"
                    )
                if np.any(to_numbers(batch.column(OPERATION)) != DELETE):
                    raise VerificationFailed(f"{path}, stripe {stripe}: holds more than delete events")
                yield keys, to_numbers(batch.column(CURRENT))
                before = keys[-1:]


def check_same_bytes(stripes: Iterable[tuple[Source, Tail, int]], path: str, *, for_orc_1_5: bool = False) -> None:
    """Checks that the stripes of the file at ``path`` are copies of ``stripes``.

    Bloom filters are compared if both files have them.

    Args:
        stripes: the source, tail and number of each copied stripe.
        for_orc_1_5: row indexes were mended for that reader.

    Raises:
        VerificationFailed: a stripe differs.
    """
    with LocalSource(path) as source:
        tail = read_tail(source)
        for number, (input_source, input_tail, input_number) in enumerate(stripes):
            read = read_stripe_footer(input_source, input_tail, input_number)
            written = read_stripe_footer(source, tail, number)
            filters = {stream[:2] for stream in filter_streams(read) & filter_streams(written)}
            indexes = text_indexes_for_orc_1_5(input_source, input_tail, input_number, read) if for_orc_1_5 else {}
            expected = _content(input_source, input_tail, input_number, read, filters, indexes)
            if _content(source, tail, number, written, filters, {}) != expected:
                raise VerificationFailed(
                    f"{path}, stripe {number}: differs from the bytes that were read from {input_tail.name}; nothing was "
                    "changed, please report this"
                )


def _content(
    source: Source,
    tail: Tail,
    stripe_index: int,
    footer: messages.Message,
    filters: Collection[tuple[int, int]],
    indexes: Mapping[int, bytes],
) -> list[object]:
    """Returns the checksum of each stream, and the footer's facts about the columns.

    Args:
        filters: the bloom filters to include.
        indexes: replace the row indexes of some columns.
    """
    stripe = tail.stripes[stripe_index]
    streams, place = [], stripe.offset
    for stream in footer.streams:
        if stream.kind not in (BLOOM, BLOOM_UTF8) or (stream.column, stream.kind) in filters:
            index = indexes.get(stream.column) if stream.kind == ROW_INDEX else None
            checksum = crc32(source, place, stream.length) if index is None else zlib.crc32(index)
            streams.append((stream.kind, stream.column, checksum))
        place += stream.length
    columns = [(column.kind, column.dictionary_size) for column in footer.columns]
    return [streams, columns, footer.writer_timezone, stripe.rows]
