"""Prepares nested arrays for Arrow's ORC writer: removes values below a NULL, and slices.

The writer passes the NULLs of a struct on to its children, but then writes the values that lie below them: every later
value of the child moves up by one (pyarrow 26). It also reads the validity of a sliced struct at the wrong offset.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from compactor.orc.codecs.arrow_types import Array
from compactor.orc.codecs.codec import relabel


def push_validity_down(array: Array) -> Array:
    """Returns an equal array without offsets whose children are NULL wherever their parent is.

    A struct column ``[NULL, {x: 1}]`` may hold ``[7, 1]`` for ``x``; the result holds ``[NULL, 1]``. A NULL list that
    spans elements becomes one that spans none.
    """
    kind = array.type
    if pa.types.is_map(kind):
        entries = pa.list_(pa.struct([kind.key_field, kind.item_field]))
        return relabel(push_validity_down(relabel(array, entries)), kind)
    if pa.types.is_list(kind):
        elements = push_validity_down(array.flatten())
        return pa.ListArray.from_arrays(_offsets(array), elements, type=kind, mask=_mask(array))
    if pa.types.is_struct(kind) and kind.num_fields:
        children = [push_validity_down(child) for child in array.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=_mask(array))
    return array if array.offset == 0 else array.take(pa.array(np.arange(len(array))))


def _offsets(array: Array) -> Any:
    lengths = array.value_lengths().fill_null(0)
    return pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])


def _mask(array: Array) -> Array | None:
    return array.is_null() if array.null_count else None
