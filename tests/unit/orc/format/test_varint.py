from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.orc.format.varint import LongNumber, read_varint, varint


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_as_it_was_written(value: int, before: bytes, after: bytes) -> None:
    made = varint(value)
    assert read_varint(before + made + after, len(before)) == (value, len(before) + len(made))


def test_a_number_that_is_cut_off_or_too_long() -> None:
    with pytest.raises(IndexError):
        read_varint(b"\x80\x80", 0)
    with pytest.raises(LongNumber, match="more than 64 bits"):
        read_varint(b"\xff" * 12, 0)
