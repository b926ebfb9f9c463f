"""Keys compared by value."""

from __future__ import annotations

import pyarrow as pa

from compactor.tables.writing.matching import PLACE, comparable, has_null, matches, numbered


def test_each_key_has_one_number_and_null_is_equal_to_nothing() -> None:
    keys = pa.table({"a": [3, 1, 3, None], "b": ["x", "y", "x", "z"]})
    known = numbered(keys.slice(0, 3))
    assert known.column(PLACE).to_pylist() == [0, 1]
    assert matches(keys, known).to_pylist() == [0, 1, 0, None]
    assert matches(pa.table({"a": [3], "b": ["y"]}), known).to_pylist() == [None]
    assert has_null(keys).to_pylist() == [False, False, False, True]


def test_timestamps_are_equal_in_any_unit() -> None:
    texts = pa.array(["2026-11-26 01:02:03.5", "0001-01-01 00:00:00"])
    known = numbered(comparable(pa.table({"at": texts.cast(pa.timestamp("us"))})))
    assert matches(pa.table({"at": texts.slice(0, 1).cast(pa.timestamp("ms"))}), known).to_pylist() == [0]
