"""A stripe in memory: its keys are encoded apart if they can be, the rest by Arrow's writer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from compactor.orc.codecs import arrow_codec
from compactor.orc.codecs.arrow_encoder import (
    LIST_PIECE_BYTES,
    PIECE_BYTES,
    PlainStripe,
    can_encode_keys_apart,
    max_rows_at_once,
)
from compactor.orc.format.hive_types import parse_hive_type
from compactor.orc.format.tail import Tail, empty_tail, read_tail
from compactor.orc.format.types import acid_types

TYPES = acid_types(parse_hive_type("struct<a:bigint>")).for_encoders
SCHEMA = arrow_codec.schema(TYPES)
LIKE = empty_tail(TYPES)


def _batch(count: int) -> pa.RecordBatch:
    ids = np.arange(count)
    row = pa.StructArray.from_arrays([pa.array(ids)], fields=list(SCHEMA.field(5).type))
    keys = [ids.astype(np.int32), ids, ids.astype(np.int32), ids, ids]
    return pa.RecordBatch.from_arrays([*map(pa.array, keys), row], schema=SCHEMA)


def _with(batch: pa.RecordBatch, place: int, values: pa.Array) -> pa.RecordBatch:
    return batch.set_column(place, pa.field(batch.schema.names[place], values.type), values)


@pytest.mark.parametrize(
    ("batch", "like", "apart"),
    [
        (_batch(3), LIKE, True),
        (_with(_batch(3), 3, pa.array([1, None, 3], pa.int64())), LIKE, False),
        (_with(_batch(3), 5, pa.array([None] * 3, SCHEMA.field(5).type)), LIKE, True),
        (_with(_batch(3), 0, pa.array([1, 2, 3], pa.int64())), LIKE, False),
        (_with(_batch(3), 5, pa.array([1, 2, 3], pa.int64())), LIKE, False),
        (_batch(3).select([0, 1, 2, 3, 4]), LIKE, False),
        (_batch(3), replace(LIKE, file_version=(0, 11)), False),
        (_batch(3), replace(LIKE, row_index_stride=0), False),
    ],
    ids=["events", "a key is NULL", "delete events", "another type", "no row", "no sixth", "0.11", "no row index"],
)
def test_keys_that_are_encoded_apart(batch: pa.RecordBatch, like: Tail, apart: bool) -> None:
    assert can_encode_keys_apart(batch, like) is apart


@pytest.mark.parametrize("apart", [True, False])
def test_all_columns_have_the_rows_of_the_stripe(apart: bool) -> None:
    stripe = PlainStripe(LIKE, SCHEMA, apart=apart, size=1 << 20, max_rows=70)
    batch = _batch(100)
    assert (stripe.write(batch, 0), stripe.write(batch, 70), stripe.is_full) == (70, 30, False)
    plain, columns = stripe.finish()
    tail = read_tail(plain)
    assert [item.rows for item in tail.stripes] == [100]
    assert [column.name for column in columns] == (SCHEMA.names[:5] if apart else [])
    assert {column.rows for column in columns} <= {100}
    assert tail.types[0].field_names == tuple(SCHEMA.names[5:] if apart else SCHEMA.names)


def test_a_stripe_is_full_only_after_a_whole_batch() -> None:
    """So the library and the keys encoded apart agree on the stripe's rows."""
    stripe = PlainStripe(LIKE, SCHEMA, apart=True, size=1, max_rows=5000)
    assert stripe.write(_batch(5000), 0) == 5000
    assert stripe.is_full
    plain, columns = stripe.finish()
    assert [item.rows for item in read_tail(plain).stripes] == [5000] == [columns[0].rows]


def test_wide_rows_are_written_few_at_once() -> None:
    assert max_rows_at_once(_batch(1000)) == 65_536
    wide = pa.record_batch({"a": ["x" * (1 << 20)] * 16})
    assert max_rows_at_once(wide) == PIECE_BYTES // (1 << 20) - 1
    assert max_rows_at_once(pa.record_batch({"a": ["x" * (2 * PIECE_BYTES)]})) == 1


def test_rows_with_lists_go_to_the_library_in_small_pieces() -> None:
    """For each row of a piece it copies all elements before it."""
    lists = pa.array([[1, 2, 3]] * 1000)
    pairs = pa.array([[(1, 2)]] * 1000, pa.map_(pa.int64(), pa.int64()))
    for nested in (lists, pairs, pa.StructArray.from_arrays([pairs], ["a"])):
        batch = pa.record_batch([nested], names=["a"])
        assert max_rows_at_once(batch) == LIST_PIECE_BYTES * 1000 // batch.nbytes
