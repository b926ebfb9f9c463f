"""Hive's hashes, as a live Hive 4.1 gave them (``SELECT hash(c), murmur_hash(c)``)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from compactor.base.errors import NotSupported
from compactor.tables.writing.bucket_hashes import bucket_hashes, bucket_numbers
from tests.support.bucket_hashes import HASHES, Hashed, arrow_array


@pytest.mark.parametrize("hashed", HASHES, ids=str)
def test_hashes_are_those_of_hive(hashed: Hashed) -> None:
    array = arrow_array(hashed.type, [hashed.text])
    assert signed([array], [hashed.type], 1) == [hashed.first]
    if hashed.second is not None:
        assert signed([array], [hashed.type], 2) == [hashed.second]


@pytest.mark.parametrize("version", [1, 2])
def test_the_blanks_that_fill_a_char_do_not_count(version: int) -> None:
    texts = [pa.array(["abc", "abc   "])]
    first, second = signed(texts, ["char(6)"], version)
    assert first == second
    assert len(set(signed(texts, ["varchar(6)"], version))) == 2


def test_null_is_0() -> None:
    assert signed([pa.array([None, 7], pa.int32())], ["int"], 2)[0] == 0


def test_several_columns_are_folded() -> None:
    """``SELECT hash(1, 'b'), murmur_hash(1, 'b')``, and the same with NULL, from the same Hive."""
    columns = [pa.array([1, None], pa.int32()), pa.array(["b", "b"])]
    assert signed(columns, ["int", "string"], 1) == [129, 98]
    assert signed(columns, ["int", "string"], 2) == [-2032187789, -38255504]


def test_a_slice_of_an_array_has_its_own_hashes() -> None:
    texts = pa.array(["a", "grüße", "ab", None, "abc"])
    assert signed([texts[1:]], ["string"], 2) == signed([texts], ["string"], 2)[1:]


def test_a_bucket_is_never_negative() -> None:
    numbers = bucket_numbers([pa.array([-1, -42, 0], pa.int64())], ["bigint"], 7, version=2)
    assert numbers.tolist() == [(value & 0x7FFFFFFF) % 7 for value in (-237789309, -1959597447, 1754797035)]


@pytest.mark.parametrize(
    ("array", "type_", "message"),
    [
        (pa.array([[1]]), "array<int>", "array<int>"),
        (pa.array([b"a"]), "binary", "type binary with bucketing_version 2"),
        (pa.array([-0.0]), "double", "-0.0"),
        (pa.array([-(10**12)], pa.timestamp("s")), "timestamp", "before 1582-10-15"),
    ],
)
def test_what_is_not_proved_is_refused(array: pa.Array, type_: str, message: str) -> None:
    with pytest.raises(NotSupported, match=message):
        bucket_hashes([array], [type_], version=2)


def signed(columns: list[pa.Array], types: list[str], version: int) -> list[int]:
    hashes: list[int] = bucket_hashes(columns, types, version=version).view(np.int32).tolist()
    return hashes
