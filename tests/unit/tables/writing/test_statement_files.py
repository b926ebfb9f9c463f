"""A stream is conformed in parts of bounded size, and divided by partition and bucket."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid.partition_names import DEFAULT_PARTITION
from compactor.base.errors import NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.tables.writing.statement_files import PLAIN_ROWS, divide_by_partition, divide_rows, join_batches


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


def table(**keys: str) -> Table:
    columns = [Column(name=name, type=type_) for name, type_ in keys.items()]
    return Table(
        id=1,
        database="d",
        name="t",
        location="/t",
        columns=(Column(name="v", type="int"),),
        partition_keys=tuple(columns),
    )


def divided(of: Table, rows: pa.Table) -> dict[str, list[int]]:
    return {name: part.column("v").to_pylist() for name, part in divide_by_partition(of, rows)}


def test_names_are_those_of_hive_and_rows_keep_their_order() -> None:
    rows = pa.table({"v": [1, 2, 3, 4], "Day": [date(2026, 1, 2), None] * 2, "s": ["a b=c", "x"] * 2})
    assert divided(table(Day="date", s="string"), rows) == {
        "day=2026-01-02/s=a b%3Dc": [1, 3],
        "day=__HIVE_DEFAULT_PARTITION__/s=x": [2, 4],
    }


def test_an_empty_text_and_null_are_one_partition() -> None:
    rows = pa.table({"v": [1, 2], "s": ["", None]})
    assert divided(table(s="string"), rows) == {"s=__HIVE_DEFAULT_PARTITION__": [1, 2]}


def test_a_partition_column_may_have_any_name() -> None:
    assert divided(table(__row="int"), pa.table({"v": [1, 2], "__row": [7, 7]})) == {"__row=7": [1, 2]}


def test_blanks_that_fill_a_char_are_in_the_name() -> None:
    """As a live Hive 4.1 names them (``live/test_new_partitions.py``)."""
    rows = pa.table({"v": [1, 2, 3], "s": ["a   ", "    ", None]})
    assert divided(table(s="char(4)"), rows) == {"s=a   ": [1], "s=    ": [2], f"s={DEFAULT_PARTITION}": [3]}


def test_a_table_without_partitions_has_one_without_a_name() -> None:
    assert divided(table(), pa.table({"v": [1, 2]})) == {"": [1, 2]}


def test_types_that_writers_name_differently_are_refused() -> None:
    with pytest.raises(NotSupported, match="partition column d is a double"):
        divided(table(d="double"), pa.table({"v": [1], "d": [0.1]}))
