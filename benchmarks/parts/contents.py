"""The content of the tables that are compacted, made column by column rather than row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from compactor.acid import bucket
from compactor.base.ids import WriteId
from compactor.metastore.catalog.values import Column
from compactor.orc.format.compression import Compression
from demo.delta_writer import write_deletes, write_rows
from tests.support.many import Write, row_type

ROWS = tuple(
    Column(name=name, type=kind)
    for name, kind in (("id", "bigint"), ("k", "int"), ("name", "string"), ("f", "double"), ("note", "string"))
)
BLOBS = (Column(name="id", type="bigint"), Column(name="blob", type="binary"))
WIDE = (Column(name="a", type="bigint"), Column(name="b", type="string"))  #: of ``tests.torture.wide``
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_NOTE = 24  #: characters
_BLOB = 256  #: bytes


def rows(count: int) -> Write:
    """Returns a write of insert events with numbers and texts, about 30 bytes each when compressed, as in a fact table."""

    def write(location: str, write_id: WriteId) -> None:
        dice = np.random.default_rng(write_id)
        names = pa.array([f"name-{number}" for number in range(5000)])
        table = pa.table(
            {
                "id": np.arange(count) + write_id * count,
                "k": dice.integers(0, 1_000_000, count).astype(np.int32),
                "name": names.take(pa.array(dice.integers(0, 5000, count))),
                "f": dice.random(count),
                "note": _texts(_HEX[dice.integers(0, 16, count * _NOTE, dtype=np.uint8)], _NOTE, pa.utf8()),
            }
        )
        write_rows(location, row_type(ROWS), table, write_id=write_id, statement_id=0)

    return write


def blobs(size: int) -> Write:
    """Returns a write of insert events of ``size`` bytes that no codec can compress, so that none is used."""

    def write(location: str, write_id: WriteId) -> None:
        count = blob_rows(size)
        data = np.frombuffer(np.random.default_rng(write_id).bytes(count * _BLOB), dtype=np.uint8)
        table = pa.table({"id": np.arange(count), "blob": _texts(data, _BLOB, pa.binary())})
        none = Compression.NONE
        write_rows(location, row_type(BLOBS), table, write_id=write_id, statement_id=0, compression=none)

    return write


def blob_rows(size: int) -> int:
    """Returns the number of rows in ``size`` bytes of ``blobs``."""
    return size // _BLOB


def deletes(columns: Sequence[Column], count: int, inserts: range, each: int) -> Write:
    """Returns a write of delete events for ``count`` rows, scattered over the deltas of the write IDs ``inserts``, which
    have ``each`` rows."""

    def write(location: str, write_id: WriteId) -> None:
        dice = np.random.default_rng(write_id)
        chosen = np.sort(dice.choice(len(inserts) * each, count, replace=False))
        ids = pa.table(
            {
                "writeid": np.asarray(inserts)[chosen // each],
                "bucketid": np.full(count, bucket.encode(0, 0)),
                "rowid": chosen % each,
            }
        )
        write_deletes(location, row_type(columns), ids, write_id=write_id, statement_id=0)

    return write


def _texts(data: np.typing.NDArray[np.uint8], length: int, kind: pa.DataType) -> pa.Array:
    count = len(data) // length
    offsets = pa.py_buffer((np.arange(count + 1) * length).astype(np.int32))
    return pa.Array.from_buffers(kind, count, [None, offsets, pa.py_buffer(data)])
