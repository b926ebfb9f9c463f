"""Encodes files with Arrow's ORC writer, which also compresses them, except with zlib."""

from __future__ import annotations

import io
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from compactor.base.errors import StorageError
from compactor.orc.codecs.arrow_types import ArrowType
from compactor.orc.codecs.bloom_filters import false_positives
from compactor.orc.codecs.codec import KEYS, encoder_block_size
from compactor.orc.codecs.recompress import Recompressor
from compactor.orc.codecs.stripe_view import BATCH_ROWS
from compactor.orc.format.compression import Compression
from compactor.orc.format.run_length_encoding import EncodedColumn, IntegerColumn
from compactor.orc.format.tail import MAGIC, Tail
from compactor.orc.format.types import ACID_KINDS
from compactor.orc.io.source import BytesSource

PIECE_BYTES = 8 * 1024 * 1024  #: size of the rows that the library gets at once
LIST_PIECE_BYTES = 256 * 1024  #: the same for rows with lists: for each row the library copies all elements before it
_KEY_TYPES = [pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64()]
COMPRESSIONS: dict[Compression, Any] = {
    Compression.NONE: "uncompressed",
    Compression.ZLIB: "zlib",
    Compression.SNAPPY: "snappy",
    Compression.LZ4: "lz4",
    Compression.ZSTD: "zstd",
}


class Encoder:
    """Writes a new file of the class of ``like``, with bloom filters of the columns ``filtered``."""

    def __init__(
        self, path: Path, like: Tail, schema: pa.Schema, *, stripe_size: int, filtered: Collection[int] = ()
    ) -> None:
        self._path, self._schema = path, schema
        self._file = _FileWithDelayedErrors(path)
        self._writer = library_writer(self._file, like, like.compression, stripe_size=stripe_size, filtered=filtered)

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows.

        Raises:
            StorageError: the file cannot be written.
        """
        self._writer.write(pa.Table.from_batches([batch], self._schema))
        self._file.check()

    def close(self) -> None:
        """Completes the file.

        Raises:
            StorageError: the file cannot be written.
        """
        self._writer.close()
        self._file.close()
        self._file.check()

    def abort(self) -> None:
        """Abandons the file; nothing of it remains."""
        self._writer.close()
        self._file.close()
        self._path.unlink(missing_ok=True)


class ZlibEncoder:
    """A faster encoder for zlib: each stripe is encoded uncompressed in memory, then compressed."""

    def __init__(
        self, path: Path, like: Tail, schema: pa.Schema, *, stripe_size: int, filtered: Collection[int] = ()
    ) -> None:
        self._like, self._schema, self._filtered = like, schema, filtered
        # the uncompressed size at which a stripe is complete; compression roughly halves it
        self._plain_size = 2 * stripe_size
        self._target = Recompressor(path, block_size=encoder_block_size(like))
        self._stripe: PlainStripe | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows; see ``Encoder``."""
        apart = can_encode_keys_apart(batch, self._like)
        if self._stripe is not None and self._stripe.apart != apart:
            self._end_stripe()
        start = 0
        while start < batch.num_rows:
            if self._stripe is None:
                self._stripe = PlainStripe(
                    self._like,
                    self._schema,
                    apart=apart,
                    size=self._plain_size,
                    max_rows=max_rows_at_once(batch),
                    filtered=self._filtered,
                )
            start += self._stripe.write(batch, start)
            if self._stripe.is_full:
                self._end_stripe()

    def _end_stripe(self) -> None:
        assert self._stripe is not None
        stripe, self._stripe = self._stripe, None
        self._target.append(*stripe.finish())

    def close(self) -> None:
        """Completes the file; see ``Encoder``."""
        try:
            if self._stripe is not None:
                self._end_stripe()
            self._target.close()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """Abandons the file; see ``Encoder``."""
        self._stripe = None
        self._target.abort()


class _FileWithDelayedErrors(io.RawIOBase):
    """A new file that keeps its first error for later.

    An error inside Arrow's writer would end the process.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = path
        self._file = open(path, "wb")  # noqa: SIM115 - closed with this object
        self._place = 0
        self._error: OSError | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._place += size
        try:
            if self._error is None:
                self._file.write(data)
        except OSError as error:
            self._error = error
        return size

    def close(self) -> None:
        try:
            self._file.close()  # writes what is buffered
        except OSError as error:
            self._error = self._error or error
        super().close()

    def check(self) -> None:
        """Raises the first error, if there was one.

        Raises:
            StorageError: something could not be written, for example because the disk is full.
        """
        if self._error is not None:
            raise StorageError(f"file {self._path}: cannot be written: {self._error.strerror}") from self._error


def can_encode_keys_apart(batch: pa.RecordBatch, like: Tail) -> bool:
    """Returns true if the keys of ``batch`` can be encoded separately from the rest.

    ``batch`` must look like ACID events with all their keys, and files of the class of ``like`` must have version 2 of the
    run-length encoding and a row index.
    """
    types = batch.schema.types
    return (
        len(types) == len(ACID_KINDS)
        and types[: len(KEYS)] == _KEY_TYPES
        and pa.types.is_struct(types[-1])
        and not any(batch.column(place).null_count for place in KEYS)
        and like.file_version == (0, 12)
        and like.row_index_stride > 0
    )


def max_rows_at_once(batch: pa.RecordBatch) -> int:
    """Returns how many rows like those of ``batch`` the library may get at once.

    It allocates memory for as many rows.
    """
    most = LIST_PIECE_BYTES if any(map(_has_lists, batch.schema.types)) else PIECE_BYTES
    return max(1, min(BATCH_ROWS, int(batch.num_rows * most / max(1, batch.nbytes))))


def _has_lists(kind: ArrowType) -> bool:
    if pa.types.is_struct(kind):
        return any(_has_lists(field.type) for field in kind)
    return bool(pa.types.is_list(kind) or pa.types.is_map(kind))


class PlainStripe:
    """A stripe that is full at ``size`` bytes and gets at most ``max_rows`` rows at once.

    With ``apart``, the keys of its rows are not in the file, but in separate columns that precede the file's own.
    """

    def __init__(
        self, like: Tail, schema: pa.Schema, *, apart: bool, size: int, max_rows: int, filtered: Collection[int] = ()
    ) -> None:
        self.apart = apart
        self._max_rows = max_rows
        self._schema = pa.schema(list(schema)[len(KEYS) :]) if apart else schema
        self._keys = [
            IntegerColumn(name, kind, like.row_index_stride)
            for name, kind in zip(schema.names, ACID_KINDS[: len(KEYS) if apart else 0], strict=False)
        ]
        self._memory = _Memory()
        self._writer = library_writer(
            self._memory,
            like,
            Compression.NONE,
            stripe_size=size,
            batch_size=max_rows,
            filtered=[column - len(self._keys) for column in filtered if column > len(self._keys)],
        )

    def write(self, batch: pa.RecordBatch, start: int) -> int:
        """Appends rows of ``batch`` from ``start`` on, at least one, and returns their number."""
        count = int(min(self._max_rows, batch.num_rows - start))
        if count < batch.num_rows:
            # ``take`` instead of ``slice``: Arrow's writer reads the validity of a sliced struct at the wrong offset
            batch = batch.take(pa.array(np.arange(start, start + count)))
        for place, column in enumerate(self._keys):
            column.append(batch.column(place).to_numpy().astype(np.int64, copy=False))
        rest = batch.columns[len(self._keys) :]
        self._writer.write(pa.Table.from_arrays(rest, schema=self._schema))
        return count

    @property
    def is_full(self) -> bool:
        """True if the library has written the stripe. It checks the size after every ``max_rows`` rows."""
        return len(self._memory.data) > len(MAGIC)

    def finish(self) -> tuple[BytesSource, list[EncodedColumn]]:
        """Returns a complete file of this stripe, and the columns that come before its own."""
        self._writer.close()
        del self._writer  # together with its buffers
        return BytesSource(self._memory.data), [column.finish() for column in self._keys]


class _Memory(io.RawIOBase):
    """A file that grows in memory."""

    def __init__(self) -> None:
        super().__init__()
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return len(self.data)

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.data += view
        return len(view)


def library_writer(
    file: io.RawIOBase,
    like: Tail,
    compression: Compression,
    *,
    stripe_size: int,
    batch_size: int = 1024,
    filtered: Collection[int] = (),
) -> Any:
    """Returns Arrow's writer for a file of the class of ``like``, but with its own ``compression``.

    Args:
        batch_size: the writer checks after so many rows whether the stripe has ``stripe_size`` bytes.
        filtered: the columns with bloom filters.
    """
    return po.ORCWriter(
        file,
        file_version=".".join(str(part) for part in like.file_version),
        batch_size=batch_size,
        compression=COMPRESSIONS[compression],
        compression_block_size=encoder_block_size(like),
        row_index_stride=like.row_index_stride,
        stripe_size=stripe_size,
        dictionary_key_size_threshold=0.8,
        bloom_filter_columns=sorted(filtered),
        bloom_filter_fpp=false_positives(like),
    )
