"""The bucket property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.acid.bucket import MAX_BUCKET, MAX_STATEMENT, Bucket, RowId, decode, encode
from compactor.base.ids import WriteId


@given(st.integers(0, MAX_BUCKET), st.integers(0, MAX_STATEMENT))
def test_round_trip(number: int, statement: int) -> None:
    assert decode(encode(number, statement)) == Bucket(version=1, number=number, statement_id=statement)


@pytest.mark.parametrize(
    ("number", "statement", "property_"),
    [(0, None, 536870912), (0, 0, 536870912), (0, 1, 536870913), (1, 0, 536936448), (4095, 4095, 805244927)],
)
def test_values_of_hive(number: int, statement: int | None, property_: int) -> None:
    """The values in files of Hive 3 and 4 (``bucket`` of insert, update and MERGE rows)."""
    assert encode(number, statement) == property_


@pytest.mark.parametrize("number", [0, 7, 4095])
def test_version_0_is_the_bucket_itself(number: int) -> None:
    """Hive 2 wrote the plain number."""
    assert decode(number) == Bucket(version=0, number=number)


@pytest.mark.parametrize("property_", [2 << 29, 7 << 29, -1])
def test_unknown_version(property_: int) -> None:
    with pytest.raises(ValueError, match="is unknown"):
        decode(property_)


@pytest.mark.parametrize(("number", "statement"), [(-1, 0), (4096, 0), (0, -1), (0, 4096)])
def test_does_not_fit(number: int, statement: int) -> None:
    with pytest.raises(ValueError, match="both must be within"):
        encode(number, statement)


def test_order_is_that_of_acid_files() -> None:
    """Write ID first, then bucket property, then row id (Hive's ``OrcRawRecordMerger.ReaderKey``)."""
    rows = [
        RowId(WriteId(2), encode(0), 0),
        RowId(WriteId(1), encode(1), 0),
        RowId(WriteId(1), encode(0, 1), 0),
        RowId(WriteId(1), encode(0), 9),
        RowId(WriteId(1), encode(0), 10),
    ]
    assert sorted(rows) == [rows[3], rows[4], rows[2], rows[1], rows[0]]
