"""Files written by Arrow's ORC writer: as it compresses them itself, or with zlib compressed here."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po

from compactor.errors import StorageError
from compactor.orc.codec import encoder_block
from compactor.orc.compression import Compression
from compactor.orc.recompress import Recompressor
from compactor.orc.tail import Tail

PLAIN_BYTES = 1 << 30  #: of a plain file, beyond which it is compressed and the next one begun
COMPRESSIONS: dict[Compression, Any] = {
    Compression.NONE: "uncompressed",
    Compression.ZLIB: "zlib",
    Compression.SNAPPY: "snappy",
    Compression.LZ4: "lz4",
    Compression.ZSTD: "zstd",
}


class Encoder:
    """A new file of the class of ``like``, of the codec ``compression`` where another is wanted."""

    def __init__(
        self, path: Path, like: Tail, schema: pa.Schema, *, stripe_size: int, compression: Compression | None = None
    ) -> None:
        self._path, self._schema = path, schema
        self._file = _Remembering(path)
        self._writer = po.ORCWriter(
            self._file,
            file_version=".".join(str(part) for part in like.file_version),
            compression=COMPRESSIONS[like.compression if compression is None else compression],
            compression_block_size=encoder_block(like),
            row_index_stride=like.row_index_stride,
            stripe_size=stripe_size,
            dictionary_key_size_threshold=0.8,
        )

    @property
    def written(self) -> int:
        """Bytes in the file; it grows by whole stripes."""
        return self._file.tell()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            StorageError: the file cannot be written.
        """
        self._writer.write(pa.Table.from_batches([batch], self._schema))
        self._file.check()

    def close(self) -> None:
        """Complete the file.

        Raises:
            StorageError: the file cannot be written.
        """
        self._writer.close()
        self._file.close()
        self._file.check()

    def abort(self) -> None:
        """Give the file up; nothing of it remains."""
        self._writer.close()
        self._file.close()
        self._path.unlink(missing_ok=True)


class ZlibEncoder:
    """The same for zlib, faster: encoded plain to a file beside it, which is then compressed, a part at a time."""

    def __init__(self, path: Path, like: Tail, schema: pa.Schema, *, stripe_size: int) -> None:
        self._plain = path.with_name(f"{path.name}.plain")
        self._like, self._schema, self._stripe_size = like, schema, stripe_size
        self._target = Recompressor(path, block_size=encoder_block(like))
        self._part: Encoder | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """As ``Encoder`` does."""
        if self._part is None:
            # a stripe is done when it has so many bytes plain; compressed it has about half of them
            size = 2 * self._stripe_size
            self._part = Encoder(self._plain, self._like, self._schema, stripe_size=size, compression=Compression.NONE)
        before = self._part.written
        self._part.write(batch)
        if before < self._part.written and self._part.written >= PLAIN_BYTES:
            self._compress(self._part)  # just after a stripe, so that none is cut short

    def _compress(self, part: Encoder) -> None:
        part.close()
        self._part = None
        self._target.append(self._plain)
        self._plain.unlink()

    def close(self) -> None:
        """As ``Encoder`` does."""
        try:
            if self._part is not None:
                self._compress(self._part)
            self._target.close()
        except BaseException:
            self.abort()
            raise

    def abort(self) -> None:
        """As ``Encoder`` does."""
        if self._part is not None:
            self._part.abort()
            self._part = None
        self._plain.unlink(missing_ok=True)
        self._target.abort()


class _Remembering(io.RawIOBase):
    """A new file that keeps its first error for later: one that Arrow's writer met would end the whole process."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._path = path
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 - closed with this object
        self._place = 0
        self._error: OSError | None = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self._place += size
        view = memoryview(data).cast("B")
        try:
            while self._error is None and view:
                view = view[self._file.write(view) :]
        except OSError as error:
            self._error = error
        return size

    def close(self) -> None:
        self._file.close()
        super().close()

    def check(self) -> None:
        """Nothing while all was written.

        Raises:
            StorageError: something was not, for example because the disk is full.
        """
        if self._error is not None:
            raise StorageError(f"file {self._path}: cannot be written: {self._error.strerror}") from self._error
