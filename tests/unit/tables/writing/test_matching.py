"""Keys compared by value."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from compactor.base.errors import NotSupported
from compactor.metastore.catalog.values import Column, Table
from compactor.tables.writing.matching import (
    PLACE,
    find_key_columns,
    has_null,
    make_comparable,
    match_keys,
    number_keys,
)


def test_each_key_has_one_number_and_null_is_equal_to_nothing() -> None:
    keys = pa.table({"a": [3, 1, 3, None], "b": ["x", "y", "x", "z"]})
    known = number_keys(keys.slice(0, 3))
    assert known.column(PLACE).to_pylist() == [0, 1]
    assert match_keys(keys, known).to_pylist() == [0, 1, 0, None]
    assert match_keys(pa.table({"a": [3], "b": ["y"]}), known).to_pylist() == [None]
    assert has_null(keys).to_pylist() == [False, False, False, True]


def test_timestamps_are_equal_in_any_unit() -> None:
    texts = pa.array(["2026-11-26 01:02:03.5", "0001-01-01 00:00:00"])
    known = number_keys(make_comparable(pa.table({"at": texts.cast(pa.timestamp("us"))})))
    assert match_keys(pa.table({"at": texts.slice(0, 1).cast(pa.timestamp("ms"))}), known).to_pylist() == [0]


def test_columns_may_have_any_name() -> None:
    """Those that are added here had names that a table's columns may have."""
    keys = pa.table({"__place": [3, 1, 3], "__row": ["x", "y", "x"], "place": [1, 2, 1]})
    assert match_keys(keys, number_keys(keys)).to_pylist() == [0, 1, 0]


def test_zero_is_equal_to_minus_zero() -> None:
    for kind in (pa.float32(), pa.float64()):
        known = number_keys(make_comparable(pa.table({"f": pa.array([0.0, -0.0, 1.5, None], kind)})))
        assert known.num_rows == 3
        assert match_keys(pa.table({"f": pa.array([-0.0, 1.5], kind)}), known).to_pylist() == [0, 1]


def test_every_nan_is_the_same_key() -> None:
    """Arrow groups and joins by bits, of which NaN has many forms."""
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], dtype=np.uint64).view(np.float64)
    for kind in (pa.float32(), pa.float64()):
        keys = pa.table({"f": pa.array(nans).cast(kind)})
        known = number_keys(make_comparable(keys))
        assert known.num_rows == 1
        assert match_keys(keys, known).to_pylist() == [0, 0, 0]


@pytest.mark.parametrize("kind", ["array<int>", "map<int,int>", "struct<a:int>", "uniontype<int>"])
def test_a_nested_column_is_no_key(kind: str) -> None:
    """Arrow joins none of them."""
    columns = (Column(name="id", type="bigint"), Column(name="l", type=kind))
    table = Table(id=1, database="d", name="t", location="/t", columns=columns)
    assert find_key_columns(table, ["ID"], "join_cols") == ["id"]
    with pytest.raises(NotSupported, match=r"column l is a .*join_cols cannot have nested columns"):
        find_key_columns(table, ["id", "L"], "join_cols")
