"""The texts of days and times that filters, VALUES and SET take: one grammar, whose digits are those of ASCII."""

from __future__ import annotations

import datetime
import re

_EPOCH = datetime.datetime(1970, 1, 1)
_DIGITS = 9  #: of a second's fraction
_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_TIMESTAMP = re.compile(
    _DATE + rf"(?P<time>[ T](\d{{1,2}}):(\d{{2}})(?::(\d{{2}})(?:\.(?P<fraction>\d{{1,{_DIGITS}}}))?)?)?", re.ASCII
)


def seconds_and_nanos(text: str, *, is_date: bool = False) -> tuple[int, int]:
    """Returns the seconds since 1970, by the wall clock, and the nanoseconds behind them; those of midnight for a day.

    Raises:
        ValueError: ``text`` is no timestamp, or no day where ``is_date``; the message says what was wanted.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None or (is_date and match["time"]):
        raise ValueError(f"{'yyyy-mm-dd' if is_date else 'yyyy-mm-dd hh:mm:ss.fraction'} was wanted")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 5, 6, 7))
    since = datetime.datetime(year, month, day, hour, minute, second) - _EPOCH
    return since.days * 86_400 + since.seconds, int((match["fraction"] or "").ljust(_DIGITS, "0"))
