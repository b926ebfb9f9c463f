from __future__ import annotations

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa

from compactor.orc.format.tail import empty_tail
from compactor.tables.reading.calendars import is_hybrid, to_gregorian_dates, to_gregorian_days, to_gregorian_seconds
from tests.support.acid_files import TYPES
from tests.support.expected import _julian


def test_every_julian_day_becomes_the_same_date() -> None:
    days = np.arange(-719_164, -141_427, 97)
    for day, found in zip(days.tolist(), to_gregorian_days(days).tolist(), strict=True):
        assert date.fromordinal(719_163 + found).isoformat() == _julian(day)


def test_later_days_and_nulls_stay() -> None:
    dates = pa.array([-141_428, None, -141_427, 0], pa.int32()).cast(pa.date32())
    assert to_gregorian_dates(dates).cast(pa.int32()).to_pylist() == [-141_438, None, -141_427, 0]
    modern = pa.array([date(2026, 1, 1), None])
    assert to_gregorian_dates(modern) is modern
    assert to_gregorian_seconds(np.array([-141_428 * 86_400 + 5, 7])).tolist() == [-141_438 * 86_400 + 5, 7]


def test_who_counts_in_the_julian_calendar() -> None:
    java = empty_tail(TYPES)
    assert is_hybrid(java)
    assert is_hybrid(replace(java, calendar=1, writer=4))
    assert not is_hybrid(replace(java, calendar=2))
    assert not is_hybrid(replace(java, writer=4))
