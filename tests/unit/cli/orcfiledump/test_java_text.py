from __future__ import annotations

import math
from decimal import Decimal

import pytest

from compactor.cli.orcfiledump.java_text import decimal_text, field_name, plain_decimal, quoted, rounded, text_of


@pytest.mark.parametrize(
    ("value", "places", "text"),
    [
        (0.0, 2, "0"),
        (0.5, 2, "0.5"),
        (19.866850321395774, 2, "19.87"),
        (0.125, 2, "0.12"),
        (0.375, 2, "0.38"),
        (1.005, 2, "1"),
        (100.0, 2, "100"),
        (0.00004, 4, "0"),
        (-0.001, 2, "-0"),
        (math.inf, 2, "∞"),
        (math.nan, 4, "NaN"),
    ],
)
def test_shares_are_rounded_half_to_even(value: float, places: int, text: str) -> None:
    assert rounded(value, places) == text


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("1.50", "1.5"),
        ("-0.00", "0"),
        ("100", "100"),
        ("1E+3", "1000"),
        ("0.000010", "0.00001"),
        ("+.5", "0.5"),
        ("5.", "5"),
        ("9" * 38, "9" * 38),
        ("9" * 37 + ".99", "1" + "0" * 37),
        ("1." + "0" * 37 + "5", "1." + "0" * 36 + "1"),
        ("-1." + "0" * 37 + "5", "-1." + "0" * 36 + "1"),
        ("6E-39", "0." + "0" * 37 + "1"),
        ("1E-39", "0"),
        ("1E-999999", "0"),
        ("9" * 38 + ".5", None),
        ("9" * 39, None),
        ("x", None),
        ("", None),
        ("1_0", None),
        ("\u0661", None),
        (" 1", None),
        ("NaN", None),
        ("1E999999", None),
        ("1E99999999999999999999999", None),
        ("1" * 1001, None),
    ],
)
def test_a_decimal_has_38_digits_and_no_zeros_at_its_end(given: str, text: str | None) -> None:
    assert decimal_text(given) == text


def test_a_whole_decimal_keeps_its_zeros() -> None:
    assert plain_decimal(Decimal("1200")) == "1200"


def test_only_what_json_and_javascript_forbid_is_escaped() -> None:
    given = "\"\\/ \b\f\n\r\t\x01\x1f\x7f<&='> é😀\u2028\u2029"
    assert quoted(given) == '"\\"\\\\/ \\b\\f\\n\\r\\t\\u0001\\u001f\x7f<&=\'> é😀\\u2028\\u2029"'


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("a b", "a b"),
        ("c`d", "c"),
        ("c``d", "c`d"),
        ("`x y`", "x y"),
        ("`open", "`open"),
        ("", ""),
        ("\udcff", "\ufffd"),
    ],
)
def test_names_end_at_a_single_backtick(given: str, name: str) -> None:
    assert field_name(given) == name


def test_bytes_that_are_no_text_are_marked() -> None:
    assert text_of(b"a\xff\xc3b\xe2\x82") == "a\ufffd\ufffdb\ufffd"
