from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.cli.orcfiledump.java_doubles import double_text, float_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (-12.5, "-12.5"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (123456.789, "123456.789"),
        (0.1 + 0.2, "0.30000000000000004"),
        (1e21, "1.0E21"),
        (5e-324, "4.9E-324"),
        (2.2250738585072014e-308, "2.2250738585072014E-308"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float(2**63), "9.223372036854776E18"),
        (math.nan, "NaN"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1e23, "9.999999999999999E22"), (2e23, "1.9999999999999998E23"), (8.41e21, "8.409999999999999E21")],
)
def test_digits_are_those_of_java_17(value: float, text: str) -> None:
    """Java 19 and later print 1.0E23, 2.0E23 and 8.41E21."""
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1.17549435e-38, "1.17549435E-38"),
        (1e-45, "1.4E-45"),
        (3.4028235e38, "3.4028235E38"),
        (1e39, "Infinity"),
        (-1e39, "-Infinity"),
        (16777216.0, "1.6777216E7"),
        (0.05, "0.05"),
        (math.nan, "NaN"),
    ],
)
def test_floats_as_java_prints_them(value: float, text: str) -> None:
    assert float_text(value) == text


@given(st.floats(allow_nan=False))
def test_a_double_is_read_back(value: float) -> None:
    assert float(double_text(value).replace("Infinity", "inf")) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_is_read_back(value: float) -> None:
    assert struct.pack(">f", float(float_text(value))) == struct.pack(">f", value)
