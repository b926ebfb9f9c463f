"""ROW__ID: the name of a row for its whole life."""

from __future__ import annotations

from typing import NamedTuple

from compactor.base.ids import WriteId


class RowId(NamedTuple):
    """``(originalTransaction, bucket, rowId)``; tuples compare in the sort order of ACID files.

    The bucket property compares as a signed 32-bit number, as in Hive's ``OrcRawRecordMerger.ReaderKey``.
    """

    write_id: WriteId
    bucket: int
    row_id: int
