from __future__ import annotations

import datetime
import time
from collections.abc import Iterator

import pytest

from compactor.cli.orcfiledump.java_times import date_text, hybrid_date_text, local_seconds, timestamp_text
from tests.support.time_zone import time_zone

GREGORIAN = -141_427  #: 1582-10-15


@pytest.fixture(autouse=True)
def elsewhere() -> Iterator[None]:
    with time_zone("Asia/Tokyo"):
        yield


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


def test_gregorian_dates_are_those_of_the_standard_library() -> None:
    for day in range(-719_162, 2_932_896, 641):
        if not GREGORIAN - 10 <= day < GREGORIAN:
            assert date_text(day, proleptic=True) == str(datetime.date.fromordinal(day + 719_163))


def test_dates_of_statistics_name_their_calendar() -> None:
    assert hybrid_date_text(0, proleptic=False) == "Hybrid AD 1970-01-01"
    assert hybrid_date_text(-719_500, proleptic=False) == "Hybrid BC 1-01-31"


def test_timestamps_have_a_digit_after_the_point() -> None:
    assert timestamp_text(0, 0, proleptic=False) == "1970-01-01 00:00:00.0"
    assert timestamp_text(-1, 999_999_999, proleptic=False) == "1969-12-31 23:59:59.999999999"
    assert timestamp_text(253_402_300_799, 120_000_000, proleptic=True) == "9999-12-31 23:59:59.12"


def test_an_instant_is_shown_by_the_clock_of_this_machine() -> None:
    assert local_seconds(0) == 9 * 3600
    assert local_seconds(2**80) == 2**80


def test_before_1900_clocks_showed_the_standard_time_of_today(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    first = -2_208_988_800
    assert local_seconds(first - 1) == first - 1 - 5 * 3600
    assert local_seconds(0) == -5 * 3600
    assert local_seconds(1_000_000_000) == 1_000_000_000 - 4 * 3600
