"""Rows of some stripes as new stripes: where rows must go, or the class or the types must change (DESIGN 4).

Every function writes one local file that is a whole ORC file of the class of ``like``; its stripes can then be copied
into the target by ``assembler``. Nothing is kept of a file whose writing failed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.acid.row_id import RowId
from compactor.errors import BadFile, NotLossless, UnforeseenKeys
from compactor.ids import WriteId
from compactor.orc.codecs import arrow_codec, pyorc_codec
from compactor.orc.codecs.bloom_filters import MISREAD, Ambiguous, check_hashes, filtered_columns
from compactor.orc.codecs.codec import KEYS, Codec, Unfit, relabelled
from compactor.orc.codecs.view import batch_rows, may_join
from compactor.orc.compat import one_calendar
from compactor.orc.format.tail import KeyStatistics, Tail, key_statistics
from compactor.orc.format.tail_writer import Metadata, no_metadata, seal
from compactor.orc.format.types import (
    ACID_FIELDS,
    Array,
    ArrowType,
    TypeKind,
    Types,
    acid_types,
    same,
    schema_text,
    widens,
)
from compactor.orc.io.source import Source

log = logging.getLogger(__name__)
ARROW: Codec = arrow_codec
PYORC: Codec = pyorc_codec
#: Which rows stay: one boolean per row, as a numpy or Arrow array.
Mask: TypeAlias = Any
JOINT_BYTES, JOINT_ROWS = 256 * 1024, 16_384  #: of stripes that are decoded at once
JOINED_BYTES = 1024 * 1024  #: decoded bytes up to which small batches are written together
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SyntheticKeys:
    """The keys that readers give the rows of an original file: the stripe's first row has ``first_row_id``."""

    write_id: WriteId
    bucket: int
    first_row_id: int


class Piece(NamedTuple):
    """One stripe to re-encode. ``keep`` has an entry for each of its rows, None keeps all; ``original`` makes ACID
    rows of an original file's; ``as_inserts`` makes insert events of Hive 2's update events; ``dense`` is what ``keep``
    was made from, if the keys were not looked at: constants, and row numbers that rise one by one."""

    source: Source
    tail: Tail
    stripe_index: int
    keep: Mask | None = None
    original: SyntheticKeys | None = None
    as_inserts: bool = False
    dense: KeyStatistics | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all rows are taken as they stand."""
        return self.keep is None and self.original is None and not self.as_inserts


def with_codec(types: Sequence[Types], work: Callable[[Codec], T]) -> T:
    """The result of ``work`` with the fast codec, or with the lossless one where the fast one would lose something.

    ``work`` starts anew with the second codec, so it must leave nothing behind when it fails.
    """
    if all(item.is_encodable for item in types):
        try:
            return work(ARROW)
        except Unfit as reason:
            log.info("rows are re-encoded one by one, Arrow would lose something: %s", reason)
    return work(PYORC)


def reencode(
    pieces: Sequence[Piece],
    path: str | os.PathLike[str],
    *,
    like: Tail,
    types: Types,
    metadata: Metadata = no_metadata,
) -> Tail:
    """The kept rows of ``pieces``, in their order, as a file of ``types`` at ``path``; its tail.

    Raises:
        NotLossless: the rows do not fit ``types`` or the calendar of ``like``, or cannot be decoded completely.
    """
    for piece in pieces:
        check_calendar(piece.tail, like)

    def rows(codec: Codec) -> Iterator[pa.RecordBatch]:
        return joined(batch for run in _runs(pieces) for batch in _run_batches(run, codec, types))

    def encode(filtered: frozenset[int]) -> Tail:
        return with_codec(
            [types, *(piece.tail.types for piece in pieces)],
            lambda codec: encode_acid(
                rows(codec), path, like=like, types=types, metadata=metadata, codec=codec, filtered=filtered
            ),
        )

    filtered = _filtered(pieces, types)
    while True:
        try:
            return encode(filtered)
        except Ambiguous as reason:
            log.info("%s gets fewer bloom filters: %s", path, reason)
            filtered -= reason.columns


def _filtered(pieces: Sequence[Piece], types: Types) -> frozenset[int]:
    """The columns that have bloom filters in the longest stripe of files of ``types``, and in all stripes where some
    readers misread them. In a single row group they would be of no use."""
    alike = [piece for piece in pieces if same(piece.tail.types, types) and not piece.tail.encrypted]
    stripes = [piece.tail.stripes[piece.stripe_index] for piece in alike]
    if sum(stripe.rows for stripe in stripes) <= max((piece.tail.row_index_stride for piece in alike), default=0):
        return frozenset()
    longest = alike[max(range(len(alike)), key=lambda place: stripes[place].length)]
    found = filtered_columns(longest.source, longest.tail, longest.stripe_index)
    misread = frozenset(column for column in found if types[column].kind in MISREAD)
    if len(alike) < len(pieces):
        return found - misread
    for piece in pieces if misread else ():
        found -= misread - filtered_columns(piece.source, piece.tail, piece.stripe_index)
    return found


def _runs(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    """Neighbours that can be decoded at once: whole stripes of like files, so small that opening each costs the most."""
    run: list[Piece] = []
    size = rows = 0
    for piece in pieces:
        stripe = piece.tail.stripes[piece.stripe_index]
        size, rows = size + stripe.length, rows + stripe.rows
        fits = size <= JOINT_BYTES and rows <= JOINT_ROWS and piece.is_whole
        if run and not (fits and run[-1].is_whole and may_join(run[-1].tail, piece.tail)):
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
            log.info("small stripes are decoded one by one: %s", error)  # which says of which file it is true
        else:
            if batch.num_rows == sum(piece.tail.stripes[piece.stripe_index].rows for piece in run):
                yield adapt(batch, tail.types, types, codec, tail.name)
                return
    for piece in run:
        yield from piece_batches(piece, codec, types)


def _is_narrow(run: Sequence[Piece]) -> bool:
    """Whether all rows of ``run`` may be decoded at once (PROTOCOL 2.4)."""
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
) -> Tail:
    """Batches of ``codec.schema(types)`` as a file of the class of ``like``, footer types as wanted, with bloom filters of
    the columns ``filtered``; its tail.

    Raises:
        Unfit: ``codec`` is Arrow's and would lose something; start again with ``PYORC`` (``with_codec`` does).
        Ambiguous: some columns cannot have bloom filters; start again without these.
    """
    last: pa.RecordBatch | None = None
    try:
        with codec.writer(path, like=like, types=types, filtered=filtered) as writer:
            for batch in batches:
                check_hashes(batch, types, filtered)
                writer.write(batch)
                last = batch if batch.num_rows else last
        return seal(path, like, types, metadata, _last_of(last) if last is not None and types.is_acid else None)
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise


def piece_batches(piece: Piece, codec: Codec, types: Types | None = None) -> Iterator[pa.RecordBatch]:
    """The kept rows of one stripe as ACID rows of ``types`` (the file's own).

    Raises:
        NotLossless: the file's types do not widen to ``types``; ``keep`` is not as long as the stripe.
        UnforeseenKeys: a key is not what statistics said, and ``keep`` was made from these.
    """
    tail, start = piece.tail, 0
    stripe_rows = tail.stripes[piece.stripe_index].rows
    if piece.keep is not None and len(piece.keep) != stripe_rows:
        raise NotLossless(
            f"file {tail.name}, stripe {piece.stripe_index}: {len(piece.keep)} rows are judged, it has {stripe_rows}"
        )
    found = acid_types(tail.types) if piece.original else tail.types
    for batch in codec.read_batches(piece.source, tail, stripes=[piece.stripe_index]):
        rows = batch.num_rows
        if piece.dense is not None:
            _must_be_dense(batch, piece, piece.dense, start)
        if piece.original:
            batch = _with_keys(batch, piece.original, start, codec.schema(found))
        if piece.keep is not None:
            batch = batch.filter(pa.array(piece.keep[start : start + rows], pa.bool_()))
        start += rows
        if piece.as_inserts:
            batch = batch.set_column(0, batch.schema.field(0), pa.array(np.zeros(batch.num_rows, np.int32)))
        if batch.num_rows:
            yield adapt(batch, found, types, codec, tail.name) if types is not None else batch
    if start != stripe_rows:
        raise NotLossless(
            f"file {tail.name}, stripe {piece.stripe_index}: {start} rows were decoded, the footer says {stripe_rows}"
        )


def _must_be_dense(batch: pa.RecordBatch, piece: Piece, said: KeyStatistics, start: int) -> None:
    first = said.row_id.minimum + start
    wanted: tuple[Any, ...] = (
        said.operation.minimum,
        said.original_transaction.minimum,
        said.bucket.minimum,
        np.arange(first, first + batch.num_rows),
        said.current_transaction.minimum,
    )
    for column, values, name in zip(batch.columns, wanted, ACID_FIELDS, strict=False):
        if column.null_count or not np.all(column.to_numpy() == values):
            raise UnforeseenKeys(
                f"file {piece.tail.name}, stripe {piece.stripe_index}: its {name} is not in every row what the stripe's "
                "statistics and the order of an ACID file make it; all its keys are to be read first"
            )


def joined(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows with small batches put together: writing a batch costs more than writing the rows of a tiny one."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if size + batch.nbytes > JOINED_BYTES:
            yield from _one(waiting)
            waiting, size = [], 0
        waiting.append(batch)
        size += batch.nbytes
    yield from _one(waiting)


def _one(batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    if len(batches) < 2:
        return batches
    found: list[pa.RecordBatch] = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return found


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


def adapt(batch: pa.RecordBatch, found: Types, wanted: Types, codec: Codec, name: str) -> pa.RecordBatch:
    """``batch`` of the file ``name`` of types ``found`` as rows of ``wanted``: by position, missing trailing fields NULL.

    Raises:
        NotLossless: some value of ``found`` might not be one of ``wanted``.
    """
    schema = codec.schema(wanted)
    if same(found, wanted):
        return pa.RecordBatch.from_arrays(
            [relabelled(column, field.type) for column, field in zip(batch.columns, schema, strict=True)], schema=schema
        )
    if not widens(found, wanted):
        raise NotLossless(
            f"file {name}: rows of {schema_text(found)} do not fit {schema_text(wanted)} without loss; "
            "rewrite the table with INSERT OVERWRITE, or change its columns back"
        )
    return pa.RecordBatch.from_arrays(
        [
            _widened(column, found, old, wanted, new, field.type)
            for column, old, new, field in zip(
                batch.columns, found[0].children, wanted[0].children, schema, strict=True
            )
        ],
        schema=schema,
    )


def _widened(array: Array, found: Types, old: int, wanted: Types, new: int, kind: ArrowType) -> Array:
    a, b = found[old], wanted[new]
    if b.kind is TypeKind.STRUCT:
        parts = [
            _widened(array.field(place), found, child, wanted, b.children[place], kind.field(place).type)
            for place, child in enumerate(a.children)
        ]
        parts += [pa.nulls(len(array), kind.field(place).type) for place in range(len(parts), kind.num_fields)]
        if not parts:
            return relabelled(array, kind)
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=array.is_null())
    if b.kind is TypeKind.LIST:
        values = _widened(array.values, found, a.children[0], wanted, b.children[0], kind.value_type)
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])
    if b.kind is TypeKind.MAP:
        keys = _widened(array.keys, found, a.children[0], wanted, b.children[0], kind.key_type)
        items = _widened(array.items, found, a.children[1], wanted, b.children[1], kind.item_type)
        pairs = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [pairs])
    if a.kind is TypeKind.CHAR and a.maximum_length < b.maximum_length:
        return _padded(array, b.maximum_length)
    return array if array.type.equals(kind) else array.cast(kind)


def _padded(array: Array, length: int) -> Array:
    """Texts of a char that grew. Hive's readers compare a padded literal with the statistics, and look no further."""
    try:
        return pc.utf8_rpad(array, width=length)
    except pa.ArrowException as error:
        raise NotLossless(f"a text of char({length}) is no UTF-8 ({error}); its rows cannot be re-encoded") from error


def check_calendar(tail: Tail, like: Tail) -> None:
    """Refuse to put days of one calendar into a file of another, unless they are days on which all agree.

    Values are taken over raw.

    Raises:
        NotLossless: a column may hold days before 1582-10-15.
    """
    if one_calendar(tail, like):
        return
    raise NotLossless(
        f"file {tail.name}: its calendar is {tail.calendar}, that of {like.name} is {like.calendar}, and it may hold "
        "days before 1582-10-15; rewrite the partition with INSERT OVERWRITE"
    )


def read_keys(source: Source, tail: Tail, stripe_index: int) -> Iterator[pa.RecordBatch]:
    """The five key columns of one stripe of an ACID file, in Hive's writing of their names; no row is decoded."""
    yield from ARROW.read_batches(source, tail, columns=KEYS, stripes=[stripe_index])


def last_key(source: Source, tail: Tail, stripe_index: int) -> RowId:
    """The key of a stripe's last row: from statistics where write ID and bucket are constant and the rows are sorted
    as the ACID format says (PROTOCOL 2.3), from the keys themselves elsewhere."""
    known = key_statistics(tail, stripe_index)
    if known and all(part.minimum == part.maximum for part in (known.original_transaction, known.bucket)):
        return RowId(WriteId(known.original_transaction.maximum), known.bucket.maximum, known.row_id.maximum)
    last: RowId | None = None
    for batch in read_keys(source, tail, stripe_index):
        last = _last_of(batch)
    if last is None:
        raise NotLossless(f"file {tail.name}, stripe {stripe_index}: it has no rows, so no last key")
    return last


def _last_of(batch: pa.RecordBatch) -> RowId:
    """The key of the last row of an ACID file's batch."""
    write_id, bucket, row_id = (batch.column(place)[batch.num_rows - 1].as_py() for place in KEYS[1:4])
    return RowId(WriteId(write_id), bucket, row_id)
