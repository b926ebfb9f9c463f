"""Parts of messages are counted before anything is parsed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.orc.format import messages
from compactor.orc.format.part_counts import Surplus, check_parts


def footer(stripes: int, types: int) -> bytes:
    made = messages.Footer(header_length=3, number_of_rows=2**60, types=[b"x" * 300] * types)
    for _ in range(stripes):
        made.stripes.add(offset=3)
    return bytes(made.SerializeToString())


def test_as_many_as_are_allowed_pass_and_one_more_does_not() -> None:
    data = footer(3, 2)
    check_parts(data, {3: 3, 4: 2}, 7)
    for allowed, most, found in (({3: 2}, 7, (3, 3)), ({4: 1}, 7, (4, 2)), ({}, 6, (0, 7))):
        with pytest.raises(Surplus) as raised:
            check_parts(data, allowed, most)
        assert (raised.value.field, raised.value.count) == found


def test_parts_of_parts_count_too() -> None:
    made = messages.Metadata()
    for _ in range(2):
        made.stripe_stats.add().col_stats.extend([messages.ColumnStatistics()] * 3)
    data = made.SerializeToString()
    check_parts(data, {1: 2}, 8, inside=1)
    with pytest.raises(Surplus):
        check_parts(data, {1: 2}, 7, inside=1)


@pytest.mark.parametrize("data", [b"\x0a", b"\x0a\xff\xff", b"\x80" * 30, b"\x0b\x0c", b"\x09\0", b"\xff" * 12])
def test_what_is_no_message_is_left_to_the_parser(data: bytes) -> None:
    assert check_parts(data, {1: 2}, 2, inside=1) is None  # type: ignore[func-returns-value]


@given(stripes=st.integers(0, 20), types=st.integers(0, 20))
def test_every_part_is_counted(stripes: int, types: int) -> None:
    data = footer(stripes, types)
    check_parts(data, {3: stripes, 4: types}, stripes + types + 2)
    with pytest.raises(Surplus):
        check_parts(data, {}, stripes + types + 1)
