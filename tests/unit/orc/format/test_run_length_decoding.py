"""Single runs, taken from the examples of the ORC specification."""

from __future__ import annotations

import pytest

from compactor.orc.format.run_length_decoding import delta_start, delta_values, patched_values, unpack, whole_number


def test_packed_numbers() -> None:
    """Direct: 23713, 43806, 57005 and 48879 in 16 bits."""
    data = bytes.fromhex("5e035ca1ab1edeadbeef")
    assert unpack(data[2:], 16, 4) == [23713, 43806, 57005, 48879]
    assert unpack(b"\xff" * 8, 64, 1) == [2**64 - 1]
    with pytest.raises(IndexError):
        unpack(data[2:], 16, 5)


def test_patches() -> None:
    """Patched base: small numbers with one large among them."""
    data = bytes.fromhex("8e132b2107d01e0014702832 3c46505a646e7882 8c96a0aab4befce8".replace(" ", ""))
    expected = [2030, 2000, 2020, 1_000_000, *range(2040, 2200, 10)]
    values, end = patched_values(data, 0, 8, 20)
    assert (values, end) == (expected, len(data))


def test_differences() -> None:
    """Delta: the first primes."""
    data = bytes.fromhex("c609020222424246")
    assert delta_values(data, 0, 4, 10) == ([2, 3, 5, 7, 11, 13, 17, 19, 23, 29], len(data))
    assert delta_start(data, 0) == (2, 1, 4)


def test_equal_differences() -> None:
    assert delta_values(bytes([0xC0, 4, 10, 3]), 0, 0, 5) == ([10, 8, 6, 4, 2], 4)


def test_whole_numbers() -> None:
    assert whole_number(b"\x00\x01\x02", 1, 2) == 258
    with pytest.raises(IndexError):
        whole_number(b"\x00", 0, 2)
