"""What both codecs offer, so that those who merge rows never see which one works.

A codec holds rows as Arrow batches whose key columns are plain Arrow integers. The columns of the row may have another
Arrow type in each codec (``schema``); whoever filters, sorts and joins batches need not look at them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa

from compactor.errors import BadFile, CompactorError, NotLossless
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import ACID_FIELDS, Array, ArrowType, Types, valid_name
from compactor.orc.io.source import Source

KEYS = (0, 1, 2, 3, 4)  #: the places of the key columns in an ACID file's root struct
STRIPE_BYTES = 64 * 1024 * 1024
MEMORY_BLOCK = 64 * 1024


class Unfit(Exception):
    """This codec would lose something of these rows; the other one may not."""


class BatchWriter(Protocol):
    """Encodes batches into a new local file. Leaving a ``with`` block by an exception removes the file."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def __enter__(self) -> BatchWriter: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Codec(Protocol):
    """Decodes and encodes rows; see ``arrow_codec`` and ``pyorc_codec``."""

    name: str

    def schema(self, types: Types) -> pa.Schema:
        """The Arrow schema of batches of a file of these types."""

    def read_batches(
        self,
        source: Source,
        tail: Tail,
        *,
        columns: Sequence[int] | None = None,
        stripes: Sequence[int] | None = None,
        rows: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Rows of some stripes in batches of at most ``rows``; ``columns`` are places in the root struct."""

    def writer(
        self, path: str | os.PathLike[str], *, like: Tail, types: Types, filtered: Collection[int] = ()
    ) -> BatchWriter:
        """Encodes rows of ``types`` in the class of ``like``, with bloom filters of the columns ``filtered``."""


def root_names(types: Types) -> tuple[str, ...]:
    """The names of a batch's columns: an ACID file's in Hive's own writing, whatever case the file has."""
    return ACID_FIELDS if types.is_acid else tuple(map(valid_name, types[0].field_names))


class _Relabelled:
    def __init__(self, data: Any, wanted: Any) -> None:
        self._data, self._wanted = data, wanted

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._wanted.__arrow_c_schema__(), self._data.__arrow_c_array__()[1]


def relabelled(array: Array, wanted: ArrowType) -> Array:
    """An array under another type of the same layout, such as other field names: handed over by Arrow's C interface
    without a copy, since a cast goes by names and would fill what it does not find with NULL."""
    if array.type.equals(wanted):
        return array
    source: Any = _Relabelled(array, wanted)
    return pa.array(source)


def relabelled_batch(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """As ``relabelled``, for a batch."""
    source: Any = _Relabelled(batch, wanted)
    return pa.record_batch(source)


def encoder_block(like: Tail) -> int:
    """The compression block in bytes to encode with: the ORC C++ library takes multiples of its memory block only.
    It need not be that of ``like``; a file of several says the largest (PROTOCOL 2.2)."""
    blocks = -(-like.compression_block_size // MEMORY_BLOCK)
    return MEMORY_BLOCK * min(max(1, blocks), 64)


@contextmanager
def named(tail: Tail) -> Iterator[None]:
    """Has a type that a codec has no equal of say whose it is."""
    try:
        yield
    except NotLossless as error:
        raise NotLossless(f"file {tail.name}: {error}; its rows cannot be decoded") from error


def decoding_failed(tail: Tail, error: Exception) -> CompactorError:
    """What a decoder's complaint means to people."""
    if isinstance(error, UnicodeDecodeError):
        return NotLossless(f"file {tail.name}: a text is no UTF-8 ({error}); its rows cannot be re-encoded")
    return BadFile(f"file {tail.name}: its rows cannot be decoded ({error}); restore it or move it away")
