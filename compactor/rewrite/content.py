"""That an output holds what its inputs held, byte by byte or value by value (``--verify full``, PROTOCOL 4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from compactor.errors import VerificationFailed
from compactor.orc.codec import Codec
from compactor.orc.reencode import Piece, piece_batches, with_codec
from compactor.orc.source import LocalSource, Source, crc32
from compactor.orc.tail import Stripe, Tail, read_tail
from compactor.orc.types import Types
from compactor.rows.checksum import MODULUS, checksum


def same_rows(pieces: Sequence[Piece], path: str, types: Types) -> None:
    """That the file at ``path``, which was encoded of ``pieces``, holds their kept rows with their keys, each as often.
    All of them are decoded once more.

    Raises:
        VerificationFailed: otherwise.
    """
    with LocalSource(path) as source:
        tail = read_tail(source)
        made = [Piece(source=source, tail=tail, stripe_index=stripe) for stripe in range(len(tail.stripes))]
        read, written = with_codec(
            [types, *(piece.tail.types for piece in pieces)],
            lambda codec: (_total(pieces, codec, types), _total(made, codec, types)),
        )
    if read != written:
        raise VerificationFailed(
            f"{path}: the checksum of the rows that were read is {read:016x}, of those that were written {written:016x}; "
            "nothing was changed, please report this"
        )


def _total(pieces: Iterable[Piece], codec: Codec, types: Types) -> int:
    return sum(checksum(_rows(batch)) for piece in pieces for batch in piece_batches(piece, codec, types)) % MODULUS


def _rows(batch: pa.RecordBatch) -> pa.StructArray:
    return pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))


def same_bytes(stripes: Iterable[tuple[Source, Tail, Stripe]], path: str) -> None:
    """That the stripes of the file at ``path`` are copies of ``stripes``.

    Raises:
        VerificationFailed: otherwise.
    """
    with LocalSource(path) as source:
        for number, ((given, tail, old), new) in enumerate(zip(stripes, read_tail(source).stripes, strict=True)):
            read = crc32(given, old.offset, old.length)
            if read != crc32(source, new.offset, new.length):
                raise VerificationFailed(
                    f"{path}, stripe {number}: other bytes than were read from {tail.name}; nothing was changed, please "
                    "report this"
                )
