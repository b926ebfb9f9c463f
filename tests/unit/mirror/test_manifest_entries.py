"""Counts and bounds of data files. A filter by them must never lose a row."""

from __future__ import annotations

import hashlib
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.typedef import Record

from compactor.mirror.data_files import DetachedFile
from compactor.mirror.manifest_entries import FileFigures, data_file_entry
from tests.support.detached import SmallTable

TEXT = "é" * 40


def _detach(tmp_path: Path, row_type: str, rows: list[Any], **options: Any) -> DetachedFile:
    small = SmallTable(root=tmp_path / "t", row_type=row_type)
    small.write(rows, **options)
    detached = small.detach()
    assert detached is not None
    return detached


@pytest.mark.parametrize(
    ("kind", "values", "low", "high"),
    [
        ("int", [3, -5, None], -5, 3),
        ("tinyint", [3, -5, None], -5, 3),
        ("bigint", [2**40, 0], 0, 2**40),
        ("date", [date(2024, 1, 1), date(1969, 12, 31)], date(1969, 12, 31), date(2024, 1, 1)),
        ("date", [date(2024, 1, 1), date(1500, 1, 1)], None, None),
        ("string", ["b", "a", ""], "", "b"),
        ("string", ["a", TEXT], "a", None),
        ("string", [TEXT], None, None),
        ("varchar(5)", ["é", "z"], "z", "é"),
        ("decimal(10,2)", [Decimal("-1.5"), Decimal("12.25")], Decimal("-1.50"), Decimal("12.25")),
        ("decimal(38,0)", [Decimal(-(10**38) + 1), Decimal(10**38 - 1)], Decimal(-(10**38) + 1), Decimal(10**38 - 1)),
        ("double", [1.0, float("nan")], None, None),
        ("float", [1.0, 2.0], None, None),
        ("boolean", [True, False], None, None),
        ("binary", [b"a"], None, None),
        ("int", [None, None], None, None),
    ],
)
def test_bounds(tmp_path: Path, kind: str, values: list[Any], low: Any, high: Any) -> None:
    """Floating point has none: readers disagree about NaN and -0.0. Long texts have none either."""
    small = SmallTable(root=tmp_path / "t", row_type=f"struct<a:{kind}>")
    small.write([(value,) for value in values])
    detached = small.detach()
    assert detached is not None
    field = small.schema.find_field("a").field_type
    bounds = [
        None if (value := bound.get(1)) is None else from_bytes(field, value)
        for bound in (detached.figures.lower_bounds, detached.figures.upper_bounds)
    ]
    days = [date(1970, 1, 1).toordinal()] if kind == "date" else []
    assert bounds == [value.toordinal() - days[0] if days and value is not None else value for value in (low, high)]
    assert detached.figures.value_counts == {1: len(values)}
    assert detached.figures.null_counts == {1: values.count(None)}


def test_bounds_of_timestamps_are_around_their_values(tmp_path: Path) -> None:
    times = [datetime(2024, 1, 1, 12, 0, 0, 123_456), datetime(1969, 12, 31, 20, 0, 0, 999_999)]
    figures = _detach(tmp_path, "struct<t:timestamp>", [(time,) for time in times]).figures
    low, high = (
        int.from_bytes(bound[1], "little", signed=True) for bound in (figures.lower_bounds, figures.upper_bounds)
    )
    seen = sorted((time - datetime(1970, 1, 1)) // timedelta(microseconds=1) for time in times)
    assert low <= seen[0] < low + 2000
    assert high - 3000 < seen[1] <= high


def test_nested_columns_have_no_figures(tmp_path: Path) -> None:
    figures = _detach(tmp_path, "struct<a:array<int>,b:struct<c:int>,d:int>", [([1], (2,), 3)]).figures
    assert list(figures.value_counts) == [3]


def test_stripes_are_where_files_can_be_split(tmp_path: Path) -> None:
    rows = [(n, hashlib.sha512(str(n).encode()).hexdigest()) for n in range(5000)]
    options = {"stripe_size": 65_536, "compression_block_size": 65_536}
    figures = _detach(tmp_path, "struct<a:int,b:string>", rows, **options).figures
    assert len(figures.split_offsets) > 1
    assert figures.split_offsets[0] == 3


def test_an_entry_names_what_iceberg_needs() -> None:
    figures = FileFigures(value_counts={1: 5}, null_counts={1: 2}, lower_bounds={1: b"a"}, split_offsets=(3,))
    entry = data_file_entry("s3://b/x.orc", 100, 5, figures, Record("x"), 3)
    assert (entry.content, entry.file_format, entry.spec_id) == (DataFileContent.DATA, FileFormat.ORC, 3)
    assert (entry.file_path, entry.record_count, entry.file_size_in_bytes) == ("s3://b/x.orc", 5, 100)
    assert (entry.value_counts, entry.null_value_counts, entry.lower_bounds) == ({1: 5}, {1: 2}, {1: b"a"})
    assert entry.partition == Record("x")
