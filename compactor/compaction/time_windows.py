"""Windows of hours in a week, by wall-clock time."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time, timedelta

from compactor.base.errors import BadSetting

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES = 24 * 60
_WEEK_MINUTES = 7 * _DAY_MINUTES
_TEXT = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+)?(?P<from>\d\d?:\d\d)-(?P<to>\d\d?:\d\d)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The same hours on some days, by wall-clock time. A window that ends before it begins runs into the next day."""

    days: frozenset[int]  #: on which it begins; 0 is Monday
    begin: int  #: minutes since midnight
    end: int  #: minutes since midnight; 1440 is midnight

    @property
    def spans(self) -> Iterable[tuple[int, int]]:
        """The begin and end of each day's hours in minutes since Monday 00:00; the end may lie in the next week."""
        length = (self.end - self.begin) % _DAY_MINUTES or _DAY_MINUTES
        for day in sorted(self.days):
            yield day * _DAY_MINUTES + self.begin, day * _DAY_MINUTES + self.begin + length


def parse_window(text: str) -> Window:
    """Parses ``Mon-Fri 20:00-06:00``, ``Sat 00:00-24:00`` or, for every day, ``22:00-04:00``.

    Raises:
        BadSetting: the text has another form.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise BadSetting(f"window {text!r}: wanted DAYS HH:MM-HH:MM, for example Mon-Fri 20:00-06:00")
    first = _day(text, match["first"] or "mon")
    last = _day(text, match["last"] or match["first"] or "sun")
    days = frozenset((first + step) % 7 for step in range((last - first) % 7 + 1))
    return Window(days=days, begin=_minutes(text, match["from"]), end=_minutes(text, match["to"]))


def _day(text: str, name: str) -> int:
    if name.lower() not in DAYS:
        raise BadSetting(f"window {text!r}: {name!r} is not a day; wanted one of {', '.join(d.title() for d in DAYS)}")
    return DAYS.index(name.lower())


def _minutes(text: str, clock: str) -> int:
    hours, minutes = map(int, clock.split(":"))
    if hours * 60 + minutes > _DAY_MINUTES or minutes > 59:
        raise BadSetting(f"window {text!r}: {clock} is not a time of day; wanted 00:00 to 24:00")
    return hours * 60 + minutes


def open_until(windows: Iterable[Window], now: datetime) -> datetime | None:
    """Returns the end of the window around ``now`` (in the pool's zone), adjoining windows joined; None outside.

    Hours are wall-clock hours: on the two nights a year when clocks change, a window is an hour longer or shorter.
    """
    at = now.weekday() * _DAY_MINUTES + now.hour * 60 + now.minute
    spans = [
        (begin + week, end + week)
        for w in windows
        for begin, end in w.spans
        for week in (-_WEEK_MINUTES, 0, _WEEK_MINUTES)
    ]
    end = at
    for begin, stop in sorted(spans):
        if begin <= end and stop > end and stop > at:
            end = stop
    if end == at:
        return None
    midnight = datetime.combine(now.date(), time(), now.tzinfo)
    return midnight + timedelta(minutes=now.hour * 60 + now.minute + min(end - at, _WEEK_MINUTES))
