"""Days before 1582-10-15 as their writer showed them: Hive counts those in the Julian calendar, Arrow does not."""

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
    """Returns true if the file's days before 1582-10-15 are of the Julian calendar: it says so, or says nothing and Java
    wrote it. Trino says nothing, and counts in the proleptic Gregorian calendar as Arrow does."""
    return not tail.is_proleptic and (tail.calendar != 0 or tail.writer == _JAVA)


def gregorian_dates(array: Array) -> Array:
    """Returns dates of a hybrid file in the proleptic Gregorian calendar: the same year, month and day."""
    days = array.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not np.any(days < FIRST_GREGORIAN_DAY):
        return array
    return pa.array(gregorian_days(days).astype(np.int32), pa.int32(), mask=_nulls(array)).cast(array.type)


def gregorian_seconds(seconds: Days) -> Days:
    """Returns the same for seconds since 1970."""
    if not np.any(seconds < FIRST_GREGORIAN_DAY * _DAY):
        return seconds
    days, rest = np.divmod(seconds, _DAY)
    return gregorian_days(days) * _DAY + rest


def gregorian_days(days: Days) -> Days:
    """Returns the same for days since 1970: the calendars differ by the leap days of centuries (years begin in March here,
    with -4800)."""
    year = (4 * (days + 2_440_588 + 32_082) + 3) // 1461
    found: Days = np.where(days < FIRST_GREGORIAN_DAY, days + 38 - year // 100 + year // 400, days)
    return found


def hybrid_days(days: Days) -> Days:
    """Returns days of the proleptic Gregorian calendar as Hive's files count them: the inverse of ``gregorian_days``.

    From 1582-10-05 to 1582-10-14 there are none; these ten are not to be given.
    """
    since = days + 2_440_588 + 32_044  # days since March 1st of the year -4800
    century = (4 * since + 3) // 146_097
    year = 100 * century + (4 * (since - 146_097 * century // 4) + 3) // 1461
    found: Days = np.where(days < FIRST_GREGORIAN_DAY, days - 38 + year // 100 - year // 400, days)
    return found


def _nulls(array: Array) -> npt.NDArray[np.bool_]:
    return np.asarray(array.is_null())
