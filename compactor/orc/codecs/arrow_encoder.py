"""Encodes files with Arrow's ORC writer, which also compresses them, except with zlib."""

from __future__ import annotations

import io
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow as pa

from compactor.base.errors import StorageError
from compactor.orc.codecs.codec import encoder_block_size
from compactor.orc.codecs.library_writer import library_writer
from compactor.orc.codecs.plain_stripe import PlainStripe, can_encode_keys_apart, max_rows_at_once
from compactor.orc.codecs.recompress import Recompressor
from compactor.orc.format.tail import Tail


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
