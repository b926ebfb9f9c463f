"""One stripe encoded in memory without compression: the keys of ACID rows by ``run_lengths``, the rest by Arrow's writer."""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from compactor.orc.codecs.codec import KEYS
from compactor.orc.codecs.library_writer import library_writer
from compactor.orc.codecs.view import BATCH_ROWS
from compactor.orc.format.compression import Compression
from compactor.orc.format.run_length_encoding import EncodedColumn, IntegerColumn
from compactor.orc.format.tail import MAGIC, Tail
from compactor.orc.format.types import ACID_KINDS
from compactor.orc.io.source import BytesSource

PIECE_BYTES = 8 * 1024 * 1024  #: of the rows that the library is given at once
_KEY_TYPES = [pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64()]


def keys_apart(batch: pa.RecordBatch, like: Tail) -> bool:
    """Whether ``batch`` looks like ACID events with all their keys, and files of the class of ``like`` have run lengths
    of version 2 and a row index."""
    types = batch.schema.types
    return (
        len(types) == len(ACID_KINDS)
        and types[: len(KEYS)] == _KEY_TYPES
        and pa.types.is_struct(types[-1])
        and not any(batch.column(place).null_count for place in KEYS)
        and like.file_version == (0, 12)
        and like.row_index_stride > 0
    )


def rows_at_once(batch: pa.RecordBatch) -> int:
    """How many rows like those of ``batch`` the library may have at once: it makes room for as many beforehand."""
    return max(1, min(BATCH_ROWS, int(batch.num_rows * PIECE_BYTES / max(1, batch.nbytes))))


class PlainStripe:
    """A stripe that is full with ``size`` bytes, and gets at most ``most`` rows at once. With ``apart`` the keys of its
    rows are not in the file, but columns to be put in front of its own."""

    def __init__(
        self, like: Tail, schema: pa.Schema, *, apart: bool, size: int, most: int, filtered: Collection[int] = ()
    ) -> None:
        self.apart = apart
        self._most = most
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
            batch_size=most,
            filtered=[column - len(self._keys) for column in filtered if column > len(self._keys)],
        )

    def write(self, batch: pa.RecordBatch, start: int) -> int:
        """Append rows of ``batch`` from ``start`` on, at least one; how many."""
        count = int(min(self._most, batch.num_rows - start))
        if count < batch.num_rows:
            # taken and not sliced: Arrow's writer takes the validity of a sliced struct from the wrong place
            batch = batch.take(pa.array(np.arange(start, start + count)))
        for place, column in enumerate(self._keys):
            column.append(batch.column(place).to_numpy().astype(np.int64, copy=False))
        rest = batch.columns[len(self._keys) :]
        self._writer.write(pa.Table.from_arrays(rest, schema=self._schema))
        return count

    @property
    def is_full(self) -> bool:
        """Whether the library has written it, which it does when it had as many rows as it takes at once."""
        return len(self._memory.data) > len(MAGIC)

    def finish(self) -> tuple[BytesSource, list[EncodedColumn]]:
        """A whole file of this stripe, and the columns that come before its own."""
        self._writer.close()
        del self._writer  # and the memory that it had for its buffers
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
