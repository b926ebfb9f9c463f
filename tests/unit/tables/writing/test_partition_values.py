from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from compactor.acid.partition_names import DEFAULT_PARTITION
from compactor.base.errors import NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.tables.writing.partition_values import divide_by_partition


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
