"""A stream is conformed in parts of bounded size."""

from __future__ import annotations

import pyarrow as pa

from compactor.tables.writing.divided import PLAIN_ROWS, together


def test_batches_come_together_up_to_a_bound() -> None:
    one = pa.record_batch({"i": list(range(PLAIN_ROWS // 2))})
    assert [part.num_rows for part in together([one] * 5)] == [PLAIN_ROWS, PLAIN_ROWS, PLAIN_ROWS // 2]
    assert list(together([])) == []
