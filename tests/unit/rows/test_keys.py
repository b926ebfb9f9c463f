from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.rows.keys import is_sorted, key_block, keys_of_events, row_id_at, sort_order, to_numbers, valid_mask
from tests.support.acid_files import block

KEYS = st.tuples(st.integers(0, 4), st.sampled_from([-5, 1 << 29, 1 << 29 | 1]), st.integers(0, 5))
MANY = st.lists(KEYS, max_size=30)


@given(MANY)
def test_order_is_that_of_tuples(keys: list[tuple[int, int, int]]) -> None:
    """originalTransaction, bucket (signed), rowId, ascending (Hive's ReaderKey)."""
    assert [key.item() for key in block(keys)[sort_order(block(keys))]] == sorted(keys)


@given(MANY)
def test_sorted_means_strictly_ascending(keys: list[tuple[int, int, int]]) -> None:
    assert is_sorted(block(keys)) == all(a < b for a, b in itertools.pairwise(keys))


def test_differences_of_the_largest_numbers_do_not_overflow() -> None:
    assert is_sorted(block([(1, -(2**31), 0), (1, 2**31 - 1, 0)]))
    assert not is_sorted(block([(1, 2**31 - 1, 0), (1, -(2**31), 0)]))


@given(
    st.lists(st.integers(0, 12), max_size=20),
    st.integers(0, 12),
    st.sets(st.integers(1, 12)),
    st.sets(st.integers(1, 12)),
)
def test_the_valid_mask_agrees_with_the_list(
    current: list[int], high: int, opened: set[int], aborted: set[int]
) -> None:
    write_ids = ValidWriteIdList(
        table="d.t",
        high_watermark=WriteId(high),
        open=frozenset(map(WriteId, opened)),
        aborted=frozenset(map(WriteId, aborted - opened)),
    )
    mask = valid_mask(write_ids, np.array(current, dtype=np.int64))
    assert mask.tolist() == [write_ids.is_valid(WriteId(c)) for c in current]


def test_blocks_of_columns() -> None:
    found = key_block(
        np.array([1, 2], dtype=np.int64), np.array([5, -6], dtype=np.int32), to_numbers(pa.chunked_array([[7], [8]]))
    )
    assert row_id_at(found, 1) == RowId(WriteId(2), -6, 8)


def test_keys_of_rows_in_the_columns_of_a_file() -> None:
    keys = [(1, -5, 2), (1, 1 << 29, 0), (3, 1 << 29, 2)]
    write_id, bucket, row_id = (list(column) for column in zip(*keys, strict=True))
    columns = [pa.array(column) for column in ([0, 0, 0], write_id, pa.array(bucket, pa.int32()), row_id, [9, 9, 9])]
    rows = pa.Table.from_arrays(columns, names=[*"owbrc"])
    assert keys_of_events(rows).tolist() == keys
    assert keys_of_events(rows.to_batches()[0]).tolist() == keys
