"""ROW__ID."""

from __future__ import annotations

from compactor.acid.bucket import encode
from compactor.acid.row_id import RowId
from compactor.base.ids import WriteId


def test_order_is_that_of_acid_files() -> None:
    """Write ID first, then bucket property, then row id (Hive's ``OrcRawRecordMerger.ReaderKey``)."""
    rows = [
        RowId(WriteId(2), encode(0), 0),
        RowId(WriteId(1), encode(1), 0),
        RowId(WriteId(1), encode(0, 1), 0),
        RowId(WriteId(1), encode(0), 9),
        RowId(WriteId(1), encode(0), 10),
    ]
    assert sorted(rows) == [rows[3], rows[4], rows[2], rows[1], rows[0]]
