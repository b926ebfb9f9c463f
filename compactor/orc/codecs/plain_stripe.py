"""Encodes one stripe in memory, uncompressed: ACID keys by ``run_length_encoding``, the rest by Arrow."""

from __future__ import annotations

import io
from collections.abc import Collection
from typing import Any

import numpy as np
import pyarrow as pa

from compactor.orc.codecs.arrow_types import ArrowType
from compactor.orc.codecs.codec import KEYS
from compactor.orc.codecs.library_writer import library_writer
from compactor.orc.codecs.stripe_view import BATCH_ROWS
from compactor.orc.format.compression import Compression
from compactor.orc.format.run_length_encoding import EncodedColumn, IntegerColumn
from compactor.orc.format.tail import MAGIC, Tail
from compactor.orc.format.types import ACID_KINDS
from compactor.orc.io.source import BytesSource

PIECE_BYTES = 8 * 1024 * 1024  #: size of the rows that the library gets at once
LIST_PIECE_BYTES = 256 * 1024  #: the same for rows with lists: for each row the library copies all elements before it
_KEY_TYPES = [pa.int32(), pa.int64(), pa.int32(), pa.int64(), pa.int64()]


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
