"""Keys of rows as columns of numbers: (originalTransaction, bucket, rowId) and currentTransaction.

A key block is a numpy structured array, so that all rows of a batch are compared at once. Blocks sort like every ACID file:
by originalTransaction, bucket (signed) and rowId, ascending (Hive's ``OrcRawRecordMerger.ReaderKey``).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import LaterWriteIdList, ValidWriteIdList
from compactor.base.ids import WriteId

KEY = np.dtype([("write_id", "<i8"), ("bucket", "<i4"), ("row_id", "<i8")])
KeyBlock: TypeAlias = npt.NDArray[np.void]
Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]
#: Positions of the six top-level fields of an ACID file; names differ in case between writers, positions do not.
OPERATION, WRITE_ID, BUCKET, ROW_ID, CURRENT, ROW = range(6)
INSERT, UPDATE, DELETE = 0, 1, 2  #: values of ``operation``


def key_block(write_id: Numbers, bucket: npt.NDArray[np.int32], row_id: Numbers) -> KeyBlock:
    block = np.empty(len(write_id), dtype=KEY)
    block["write_id"], block["bucket"], block["row_id"] = write_id, bucket, row_id
    return block


def keys_of_events(rows: pa.RecordBatch | pa.Table) -> KeyBlock:
    """Returns the keys of events; the columns are ordered as in a file."""
    write_id, bucket, row_id = (to_numbers(rows.column(place)) for place in (WRITE_ID, BUCKET, ROW_ID))
    return key_block(write_id, bucket.astype(np.int32), row_id)


def to_numbers(column: pa.Array | pa.ChunkedArray) -> Numbers:
    """Returns a column of integers without nulls as a numpy array."""
    return np.asarray(column.to_numpy(zero_copy_only=False))


def row_id_at(block: KeyBlock, index: int) -> RowId:
    write_id, bucket, row_id = block[index].item()
    return RowId(WriteId(write_id), bucket, row_id)


def is_sorted(block: KeyBlock) -> bool:
    """Returns true if keys are strictly ascending: no key occurs twice, and none precedes a smaller one."""
    if len(block) < 2:
        return True
    w, b, r = block["write_id"], block["bucket"], block["row_id"]
    dw, db, dr = np.diff(w), np.diff(b.astype(np.int64)), np.diff(r)
    return bool(np.all((dw > 0) | ((dw == 0) & ((db > 0) | ((db == 0) & (dr > 0))))))


def sort_order(block: KeyBlock) -> npt.NDArray[np.intp]:
    """Returns the positions of the block's keys in ascending order, by a stable sort."""
    return np.lexsort((block["row_id"], block["bucket"], block["write_id"]))


def valid_mask(write_ids: ValidWriteIdList, current: Numbers) -> Mask:
    """Returns the mask of the write IDs that the snapshot sees."""
    mask = current <= write_ids.high_watermark
    if bad := sorted(write_ids.open | write_ids.aborted):
        mask &= ~np.isin(current, np.array(bad, dtype=np.int64))
    return mask & ~valid_mask(write_ids.earlier, current) if isinstance(write_ids, LaterWriteIdList) else mask
