"""A stream is conformed in parts of bounded size, and divided by partition and bucket."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from compactor.base.errors import NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.tables.writing.divided import PLAIN_ROWS, divide_rows, join_batches


def test_batches_come_together_up_to_a_bound() -> None:
    one = pa.record_batch({"i": list(range(PLAIN_ROWS // 2))})
    assert [part.num_rows for part in join_batches([one] * 5)] == [PLAIN_ROWS, PLAIN_ROWS, PLAIN_ROWS // 2]
    assert list(join_batches([])) == []


@pytest.mark.parametrize(
    ("version", "value", "why"),
    [
        ("2", -0.0, "rows cannot be divided into buckets by the value -0.0"),
        ("3", 1.0, "bucketing_version is '3'; expected 1 or 2"),
    ],
)
def test_rows_whose_bucket_is_not_known_name_table_and_columns(
    version: str, value: float, why: str, tmp_path: Path
) -> None:
    table = Table(
        id=1,
        database="d",
        name="t",
        location="/t",
        columns=(Column(name="v", type="int"), Column(name="F", type="double")),
        buckets=4,
        bucket_columns=("F",),
        parameters={"bucketing_version": version},
    )
    with pytest.raises(NotSupported, match=f"^d.t, bucketed by f: {why}"):
        divide_rows(table, [pa.table({"v": [1], "F": [value]})], str(tmp_path))
