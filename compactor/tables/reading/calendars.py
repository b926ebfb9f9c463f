"""Converts days before 1582-10-15, which Hive's files count in the Julian calendar but Arrow does not."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from compactor.orc.codecs.arrow_types import Array
from compactor.orc.format.tail import Tail
from compactor.orc.stripe_compatibility import FIRST_GREGORIAN_DAY

Days = npt.NDArray[np.int64]
_JAVA = 0  #: number of a writer
_DAY = 86_400  #: seconds


def is_hybrid(tail: Tail) -> bool:
    """Tells whether days before 1582-10-15 in the file are of the Julian calendar.

    They are if the file says so, or if it says nothing and Java wrote it. Trino says nothing, but counts in the proleptic
    Gregorian calendar, as Arrow does.
    """
    return not tail.is_proleptic and (tail.calendar != 0 or tail.writer == _JAVA)


def to_gregorian_dates(array: Array) -> Array:
    """Converts dates of a hybrid file to the proleptic Gregorian calendar, with the same year, month and day."""
    days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not np.any(days < FIRST_GREGORIAN_DAY):
        return array
    return pa.array(to_gregorian_days(days).astype(np.int32), pa.int32(), mask=_nulls(array)).cast(array.type)


def to_gregorian_seconds(seconds: Days) -> Days:
    """Does the same for seconds since 1970."""
    if not np.any(seconds < FIRST_GREGORIAN_DAY * _DAY):
        return seconds
    days, rest = np.divmod(seconds, _DAY)
    return to_gregorian_days(days) * _DAY + rest


def to_gregorian_days(days: Days) -> Days:
    """Does the same for days since 1970. The calendars differ by the leap days of centuries.

    In this formula, years begin in March and count from -4800.
    """
    year = (4 * (days + 2_440_588 + 32_082) + 3) // 1461
    converted: Days = np.where(days < FIRST_GREGORIAN_DAY, days + 38 - year // 100 + year // 400, days)
    return converted


def to_hybrid_days(days: Days) -> Days:
    """Converts days of the proleptic Gregorian calendar to those of Hive's files; inverts ``gregorian_days``.

    The ten days from 1582-10-05 to 1582-10-14 do not exist there and must not be given.
    """
    march_days = days + 2_440_588 + 32_044  # days since March 1st of the year -4800
    century = (4 * march_days + 3) // 146_097
    year = 100 * century + (4 * (march_days - 146_097 * century // 4) + 3) // 1461
    converted: Days = np.where(days < FIRST_GREGORIAN_DAY, days - 38 + year // 100 - year // 400, days)
    return converted


def _nulls(array: Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.is_null())
