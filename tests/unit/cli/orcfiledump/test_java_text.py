from __future__ import annotations

import datetime
import math
import struct
import time
from collections.abc import Iterator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.cli.orcfiledump.java_text import (
    date_text,
    decimal_text,
    decode_text,
    double_text,
    field_name,
    float_text,
    hybrid_date_text,
    local_seconds,
    plain_decimal,
    quote,
    round_text,
    timestamp_text,
)
from tests.support.time_zone import time_zone


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
    assert round_text(value, places) == text


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
    assert quote(given) == '"\\"\\\\/ \\b\\f\\n\\r\\t\\u0001\\u001f\x7f<&=\'> é😀\\u2028\\u2029"'


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
    assert decode_text(b"a\xff\xc3b\xe2\x82") == "a\ufffd\ufffdb\ufffd"


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


GREGORIAN = -141_427  #: 1582-10-15


@pytest.fixture
def elsewhere() -> Iterator[None]:
    with time_zone("Asia/Tokyo"):
        yield


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("day", "hybrid", "proleptic"),
    [
        (0, "1970-01-01", "1970-01-01"),
        (2_932_896, "9999-12-31", "9999-12-31"),
        (GREGORIAN, "1582-10-15", "1582-10-15"),
        (GREGORIAN - 1, "1582-10-04", "1582-10-24"),
        (GREGORIAN - 10, "1582-09-25", "1582-10-15"),
        (GREGORIAN - 11, "1582-09-24", "1582-10-04"),
        (-719_162, "0001-01-03", "0001-01-01"),
        (-719_164, "0001-01-01", "0001-12-30"),
    ],
)
def test_dates_in_either_calendar(day: int, hybrid: str, proleptic: str) -> None:
    """The year before 1 is 1 again, as Java prints it; a day that the calendar left out is ten days later."""
    assert (date_text(day, proleptic=False), date_text(day, proleptic=True)) == (hybrid, proleptic)


@pytest.mark.usefixtures("elsewhere")
def test_gregorian_dates_are_those_of_the_standard_library() -> None:
    for day in range(-719_162, 2_932_896, 641):
        if not GREGORIAN - 10 <= day < GREGORIAN:
            assert date_text(day, proleptic=True) == str(datetime.date.fromordinal(day + 719_163))


@pytest.mark.usefixtures("elsewhere")
def test_dates_of_statistics_name_their_calendar() -> None:
    assert hybrid_date_text(0, proleptic=False) == "Hybrid AD 1970-01-01"
    assert hybrid_date_text(-719_500, proleptic=False) == "Hybrid BC 1-01-31"


@pytest.mark.usefixtures("elsewhere")
def test_timestamps_have_a_digit_after_the_point() -> None:
    assert timestamp_text(0, 0, proleptic=False) == "1970-01-01 00:00:00.0"
    assert timestamp_text(-1, 999_999_999, proleptic=False) == "1969-12-31 23:59:59.999999999"
    assert timestamp_text(253_402_300_799, 120_000_000, proleptic=True) == "9999-12-31 23:59:59.12"


@pytest.mark.usefixtures("elsewhere")
def test_an_instant_is_shown_by_the_clock_of_this_machine() -> None:
    assert local_seconds(0) == 9 * 3600
    assert local_seconds(2**80) == 2**80


@pytest.mark.usefixtures("elsewhere")
def test_before_1900_clocks_showed_the_standard_time_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    first = -2_208_988_800
    assert local_seconds(first - 1) == first - 1 - 5 * 3600
    assert local_seconds(0) == -5 * 3600
    assert local_seconds(1_000_000_000) == 1_000_000_000 - 4 * 3600
