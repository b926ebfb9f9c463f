"""The common interface of both codecs. Code that merges rows does not depend on the one in use.

A codec holds rows as Arrow batches with plain Arrow integers as key columns. The columns of the row may have a different
Arrow type in each codec (``schema``); code that filters, sorts and concatenates batches need not look at them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol

import pyarrow as pa

from compactor.base.errors import BadFile, CompactorError, NotLossless
from compactor.orc.codecs.arrow_types import Array, ArrowType
from compactor.orc.format.hive_types import valid_name
from compactor.orc.format.tail import Tail
from compactor.orc.format.types import ACID_FIELDS, Types
from compactor.orc.io.source import Source

KEYS = (0, 1, 2, 3, 4)  #: positions of the key columns in an ACID file's root struct
STRIPE_BYTES = 64 * 1024 * 1024
MEMORY_BLOCK = 64 * 1024
STREAMS = 3  #: of a column, at most: nulls, and two of values
MOST_BUFFERS = 1 << 30  #: bytes of the blocks in the library's memory, one for each stream


class Unfit(Exception):
    """This codec cannot hold these rows without loss; the other one may."""


class BatchWriter(Protocol):
    """Encodes batches into a new local file. An exception in the ``with`` block removes the file."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def __enter__(self) -> BatchWriter: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Codec(Protocol):
    """Decodes and encodes rows; see ``arrow_codec`` and ``pyorc_codec``."""

    name: str

    def schema(self, types: Types) -> pa.Schema:
        """Returns the Arrow schema of batches of a file of these types."""

    def read_batches(
        self,
        source: Source,
        tail: Tail,
        *,
        columns: Sequence[int] | None = None,
        stripes: Sequence[int] | None = None,
        rows: int | None = None,
        inner: Sequence[int] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yields rows of some stripes in batches of at most ``rows``.

        Args:
            columns: positions in the root struct.
            inner: ids of columns within the row of an ACID file; only these are read.
        """

    def writer(
        self, path: str | os.PathLike[str], *, like: Tail, types: Types, filtered: Collection[int] = ()
    ) -> BatchWriter:
        """Returns a writer of ``types`` in the class of ``like``, with bloom filters of ``filtered``."""


def column_names(types: Types) -> tuple[str, ...]:
    """Returns the names of a batch's columns; those of an ACID file in Hive's spelling."""
    return ACID_FIELDS if types.is_acid else tuple(map(valid_name, types[0].field_names))


class _RelabelledData:
    def __init__(self, data: Any, new_type: Any) -> None:
        self._data, self._new_type = data, new_type

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        return self._new_type.__arrow_c_schema__(), self._data.__arrow_c_array__()[1]


def relabel(array: Array, new_type: ArrowType) -> Array:
    """Returns an array under another type of the same layout, such as one with other field names.

    Arrow's C interface does this without a copy. A cast would match fields by name and fill missing ones with NULL.
    """
    if array.type.equals(new_type):
        return array
    source: Any = _RelabelledData(array, new_type)
    return pa.array(source)


def relabel_batch(batch: pa.RecordBatch, new_schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch under another schema of the same layout; see ``relabel``."""
    source: Any = _RelabelledData(batch, new_schema)
    return pa.record_batch(source)


def stripe_bytes(like: Tail) -> int:
    """Returns the size at which a stripe of a file like this ends, in bytes."""
    return (
        STRIPE_BYTES
        if like.requested_class is None or like.requested_class.stripe_bytes is None
        else like.requested_class.stripe_bytes
    )


def encoder_block_size(like: Tail) -> int:
    """Returns the compression block size to encode with, in bytes.

    The ORC C++ library accepts only multiples of its memory block, so the size may differ from that of ``like``. A file with
    several sizes records the largest (PROTOCOL 2.2). Blocks of very wide files are smaller, because the library keeps one
    for each stream in memory.
    """
    blocks = -(-like.compression_block_size // MEMORY_BLOCK)
    affordable = MOST_BUFFERS // (MEMORY_BLOCK * STREAMS * len(like.types))
    return MEMORY_BLOCK * max(1, min(blocks, affordable, 64))


@contextmanager
def name_file_in_errors(tail: Tail) -> Iterator[None]:
    """Adds the file's name to the error about a type that a codec cannot represent."""
    try:
        yield
    except NotLossless as error:
        raise NotLossless(f"file {tail.name}: {error}; its rows cannot be decoded") from error


def decoding_failed(tail: Tail, error: Exception) -> CompactorError:
    """Returns the error that explains a decoder's failure to people.

    Raises:
        MemoryError: there is not enough memory, which is not the file's fault.
    """
    if isinstance(error, MemoryError) or "bad_alloc" in str(error):
        raise MemoryError(f"file {tail.name}: {error}") from error
    if isinstance(error, UnicodeDecodeError):
        return NotLossless(f"file {tail.name}: a text is not UTF-8 ({error}); its rows cannot be re-encoded")
    return BadFile(f"file {tail.name}: its rows cannot be decoded ({error}); restore it or move it away")
