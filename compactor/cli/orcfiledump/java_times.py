"""Dates and timestamps as Java prints them: in the calendar that is Julian until 1582-10-04 and Gregorian from the next day,
1582-10-15, on.

A file's days and times count in its own calendar. Hive's reader keeps what a date says, and not the day that it was: a
1500-01-01 of the proleptic Gregorian calendar stays 1500-01-01, which is another day in the Julian one. Times are
kept as well, here even those within the hour that the clocks of this machine's time zone skip in spring, which Java changes.
"""

from __future__ import annotations

import time
from typing import NamedTuple

_GREGORIAN = -141_427  #: the day 1582-10-15, as days since 1970-01-01
_GAP = 10  #: days that the calendar leaves out before it
_EPOCH_JULIAN, _EPOCH_GREGORIAN = 2_472_670, 719_468  #: days from March 1 of the year -4800 and 0 to 1970-01-01
_DAY = 86_400
_1900 = -2_208_988_800  #: seconds from 1970 to 1900


class Date(NamedTuple):
    """A day of a calendar; the year before 1 is 0."""

    year: int
    month: int
    day: int


def date_of(day: int, *, proleptic: bool) -> Date:
    """Returns what Java's reader shows for the day ``day`` since 1970-01-01 of a file in either calendar."""
    if day >= _GREGORIAN:
        return _gregorian(day)
    if not proleptic:
        return _julian(day)
    # the days left out are read as Julian ones, and shown as the Gregorian days that they are
    return _gregorian(day + _GAP) if day >= _GREGORIAN - _GAP else _gregorian(day)


def date_text(day: int, *, proleptic: bool) -> str:
    """Returns a value of type date."""
    found = date_of(day, proleptic=proleptic)
    return f"{_year_of_era(found):04d}-{found.month:02d}-{found.day:02d}"


def hybrid_date_text(day: int, *, proleptic: bool) -> str:
    """Returns a date of column statistics, which names its calendar."""
    found = date_of(day, proleptic=proleptic)
    era = "AD" if found.year > 0 else "BC"
    return f"Hybrid {era} {_year_of_era(found)}-{found.month:02d}-{found.day:02d}"


def timestamp_text(seconds: int, nanos: int, *, proleptic: bool) -> str:
    """Returns a timestamp: at least one digit of a second's fraction, no zeros after the others."""
    day, second = divmod(seconds, _DAY)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{date_text(day, proleptic=proleptic)} {clock}.{f'{nanos:09d}'.rstrip('0') or '0'}"


def local_seconds(seconds: int) -> int:
    """Returns the seconds that clocks of this machine's time zone show at an instant, as if they were of UTC.

    Java's older classes, which ORC uses, know nothing of clocks before 1900: they take the zone's standard time of today.
    """
    if seconds < _1900:
        return seconds - time.timezone
    try:
        return seconds + time.localtime(seconds).tm_gmtoff
    except (OverflowError, OSError, ValueError):
        return seconds


def _year_of_era(date: Date) -> int:
    return date.year if date.year > 0 else 1 - date.year


def _gregorian(day: int) -> Date:
    era, rest = divmod(day + _EPOCH_GREGORIAN, 146_097)
    year = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
    return _of_march_year(era * 400 + year, rest - (365 * year + year // 4 - year // 100))


def _julian(day: int) -> Date:
    cycle, rest = divmod(day + _EPOCH_JULIAN, 1461)
    year = min(rest // 365, 3)
    return _of_march_year(cycle * 4 + year - 4800, rest - 365 * year)


def _of_march_year(year: int, day: int) -> Date:
    """Returns the ``day`` of a year that starts in March, so that the leap day is its last."""
    month = (5 * day + 2) // 153
    return Date(year + month // 10, month + 3 - 12 * (month // 10), day - (153 * month + 2) // 5 + 1)
