"""Parses dates and timestamps in filters, VALUES and SET: one grammar, with ASCII digits only."""

from __future__ import annotations

import datetime
import re

_EPOCH = datetime.datetime(1970, 1, 1)
_DIGITS = 9  #: in the fraction of a second
_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_TIMESTAMP = re.compile(
    _DATE + rf"(?P<time>[ T](\d{{1,2}}):(\d{{2}})(?::(\d{{2}})(?:\.(?P<fraction>\d{{1,{_DIGITS}}}))?)?)?", re.ASCII
)


def seconds_and_nanos(text: str, *, is_date: bool = False) -> tuple[int, int]:
    """Returns the wall-clock seconds since 1970 and the nanoseconds; a date counts as its midnight.

    Example: ``1970-01-02 00:00:00.5`` is (86400, 500000000).

    Raises:
        ValueError: ``text`` is not a timestamp, or with ``is_date`` not a date; the message has the expected form.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None or (is_date and match["time"]):
        raise ValueError(f"{'yyyy-mm-dd' if is_date else 'yyyy-mm-dd hh:mm:ss.fraction'} was expected")
    year, month, day, hour, minute, second = (int(part or 0) for part in match.group(1, 2, 3, 5, 6, 7))
    since = datetime.datetime(year, month, day, hour, minute, second) - _EPOCH
    return since.days * 86_400 + since.seconds, int((match["fraction"] or "").ljust(_DIGITS, "0"))
