"""Time zones with Java's rules, by which Hive and Spark show timestamps (PROTOCOL 2.6).

Java's rules are those of the tz database with three exceptions. Before 1900 a zone has its present standard time instead of
local mean time. From 2037 on the last rule holds, even if other rules are announced for single years. Java knows more
names, such as ``JST`` and ``GMT+08:00``, and takes an unknown name for GMT.
"""

from __future__ import annotations

import io
import re
import struct
import zoneinfo
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from importlib import resources
from typing import Protocol

import numpy as np
import numpy.typing as npt

from compactor.base.errors import BadSetting, NotLossless, NotSupported

Seconds = npt.NDArray[np.int64]
DEFAULT_ZONE = "compactor.orc.default.timezone"  #: the setting that names the zone of stripes that name none
UTC_NAME = "GMT"  #: the name of UTC that re-encoded stripes have, as those of Arrow do
#: Names of UTC that every reader knows. A stripe that names one of them may be written again under another.
UTC_NAMES = frozenset({UTC_NAME, "UTC", "Etc/UTC", "Etc/GMT", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "Universal"})
BASE = 1_420_070_400  #: 2015-01-01 00:00:00 UTC; seconds in a stripe count from this time in the writer's zone
HIDDEN_NANOS = 999_999  #: the most below a second that moves no negative time to the next second
_1900, _2037, _2437 = -2_208_988_800, 2_114_380_800, 14_736_902_400
_CYCLE = 400 * 365 * 86_400 + 97 * 86_400  #: seconds after which the Gregorian calendar, and so each rule, repeats
_DAY = 86_400
_MONTH = 28 * _DAY
_SURE = 4 * _DAY  #: from this time on no zone's clocks were before 1970
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Java's three-letter names (``java.time.ZoneId.SHORT_IDS``).
_SHORT = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "SystemV/AST4": "-04:00",
    "SystemV/EST5": "-05:00",
    "SystemV/CST6": "-06:00",
    "SystemV/MST7": "-07:00",
    "SystemV/PST8": "-08:00",
    "SystemV/YST9": "-09:00",
    "SystemV/HST10": "-10:00",
}
_PATH = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_CUSTOM = re.compile(r"(?:GMT)?([+-])(\d{1,2})(?::?([0-5]\d))?(?::?([0-5]\d))?")
#: Java's standard time where it is not the lesser of the last rule's two offsets (its source of rules avoids summer times
#: that are behind the standard time).
_STANDARD = {"Africa/Windhoek": 3600}


@dataclass(frozen=True, slots=True, eq=False)
class JavaZone:
    """A zone's offsets from UTC in seconds.

    Each holds from one of the ``starts`` on; the first holds before 1900.

    ``base`` is the offset at the start of 2015, from which stripes of the zone count their seconds. An unknown zone is GMT.
    """

    name: str
    starts: Seconds
    offsets: Seconds
    base: int
    is_known: bool = True

    def offsets_at(self, instants: Seconds) -> Seconds:
        """Returns the offset at each instant."""
        beyond = instants >= _2437
        if np.any(beyond):
            instants = np.where(beyond, _2437 - _CYCLE + (instants - _2437) % _CYCLE, instants)
        offsets: Seconds = self.offsets[np.searchsorted(self.starts, instants, side="right") - 1]
        return offsets

    def extreme_offsets(self, first: int, last: int) -> tuple[int, int]:
        """Returns the smallest and largest offset between two instants, both included."""
        if last >= _2437:  # whichever years these are, both of the last rule's offsets may apply
            first, last = min(first, _2037), _2437 - 1
        begin, end = np.searchsorted(self.starts, [first, last], side="right")
        offsets = self.offsets[begin - 1 : end]
        return int(offsets.min()), int(offsets.max())

    def shows_all(self, first: int, last: int) -> bool:
        """Returns true if the zone's clocks have surely shown every time from ``first`` to ``last``.

        Returns false for times before 1970, in which databases of zones differ, and for times beyond all listed rules.
        """
        if first < _SURE or last >= _2437 - _DAY:
            return False
        begin, end = np.searchsorted(self.starts, [first - _DAY, last + _DAY], side="right")
        return not np.any(np.diff(self.offsets[begin - 1 : end]) > 0)

    def stored(self, shown: Seconds, nanos: Seconds) -> Seconds:
        """Returns wall-clock times as they are encoded as if the zone were UTC.

        This is the inverse of ``wall_clock`` for times for which ``shows_all`` holds.

        Raises:
            NotLossless: the clocks skipped such a time.
        """
        instants = shown - self.offsets_at(shown - self.offsets_at(shown))
        stored_times = instants + self.base
        if np.any(self.wall_clock(stored_times, nanos) != shown):
            raise NotLossless(f"clocks of {self.name} skipped a time that is to be written there; please report this")
        return stored_times

    def wall_clock(self, seconds: Seconds, nanos: Seconds) -> Seconds:
        """Returns the zone's wall-clock times for times that were decoded as if the zone were UTC.

        A fraction before 1970 is stored under the next whole second. The decoder decided by the wrong zone which times are
        before 1970, so this is undone and decided again.
        """
        has_fraction = nanos > HIDDEN_NANOS
        instants = seconds + ((seconds < 0) & has_fraction) - self.base
        instants = instants - ((instants < 0) & has_fraction)
        shown: Seconds = instants + self.offsets_at(instants)
        return shown


class _Settings(Protocol):
    def text(self, key: str) -> str: ...


def default_zone(settings: _Settings) -> str | None:
    """Returns the configured zone of stripes that name no zone, or None.

    Raises:
        BadSetting: the configured name is not a zone.
    """
    name = settings.text(DEFAULT_ZONE)
    if name and not is_utc(name) and not java_zone(name).is_known:
        raise BadSetting(f"{DEFAULT_ZONE}: found {name!r}, expected the name of a time zone, such as Europe/Berlin")
    return name or None


def is_utc(name: str) -> bool:
    """Returns true if every reader takes this zone for UTC."""
    return name in UTC_NAMES


@lru_cache(maxsize=64)
def java_zone(name: str) -> JavaZone:
    """Returns the zone that ``name`` means in Java.

    Raises:
        NotSupported: only Java has its rules.
    """
    target = _SHORT.get(name, name)
    if (match := _CUSTOM.fullmatch(target)) and (target.startswith("GMT") or target != name):
        sign, hours, minutes, seconds = match.groups()
        if int(hours) < 24:
            offset = int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
            return _fixed_zone(name, -offset if sign == "-" else offset)
    if name.startswith("SystemV/") and target == name:
        raise NotSupported(f"only Java has the rules of the time zone {name}; its timestamps can be copied, not read")
    place = resources.files("tzdata.zoneinfo").joinpath(*target.split("/"))
    if not _PATH.fullmatch(target) or not place.is_file() or not (data := place.read_bytes()).startswith(b"TZif"):
        return replace(_fixed_zone(name, 0), is_known=False)
    return _from_tz_data(name, target, data)


def _fixed_zone(name: str, offset: int) -> JavaZone:
    return JavaZone(name, np.array([np.iinfo(np.int64).min]), np.array([offset]), offset)


def _from_tz_data(name: str, target: str, data: bytes) -> JavaZone:
    transitions, rule = _transitions(data)
    transitions = [(start, offset) for start, offset in transitions if start < _2037]
    if rule:
        transitions += _by_rule(target, data, max(_1900, transitions[-1][0]))
    in_1900 = max((pair for pair in transitions if pair[0] <= _1900), default=(_1900, transitions[0][1]))[1]
    last = {offset for start, offset in transitions if start > _2437 - 2 * 366 * 86_400} or {transitions[-1][1]}
    standard = _STANDARD.get(target, min(last))
    later = [pair for pair in transitions if pair[0] > _1900]
    starts, offsets = zip((np.iinfo(np.int64).min, standard), (_1900, in_1900), *later, strict=True)
    zone = JavaZone(name, np.array(starts, np.int64), np.array(offsets, np.int64), 0)
    base = BASE - int(zone.offsets_at(np.array([BASE]))[0])
    return JavaZone(name, zone.starts, zone.offsets, int(zone.offsets_at(np.array([base]))[0]))


def _transitions(data: bytes) -> tuple[list[tuple[int, int]], bool]:
    """Returns the periods (start, offset) of a tz database's file, and true if a rule follows (RFC 9636).

    The first period gets the smallest possible start.
    """
    header = struct.Struct(">20x6l")
    isut, isstd, leap, times, kinds, chars = header.unpack_from(data)
    start = header.size + times * 5 + kinds * 6 + chars + leap * 8 + isstd + isut  # version 1 is skipped
    isut, isstd, leap, times, kinds, chars = header.unpack_from(data, start)
    start += header.size
    when = struct.unpack_from(f">{times}q", data, start)
    which = data[start + 8 * times : start + 9 * times]
    offsets = [struct.unpack_from(">l", data, start + 9 * times + 6 * kind)[0] for kind in range(kinds)]
    end = start + 9 * times + 6 * kinds + chars + leap * 12 + isstd + isut
    listed = [(-(1 << 62), offsets[0]), *((at, offsets[kind]) for at, kind in zip(when, which, strict=True))]
    return listed, bool(data[end:].strip())


def _by_rule(target: str, data: bytes, after: int) -> list[tuple[int, int]]:
    """Returns the periods that follow ``after``, until rules have repeated."""
    zone = zoneinfo.ZoneInfo.from_file(io.BytesIO(data), target)

    def offset_at(instant: int) -> int:
        delta = (_EPOCH + timedelta(seconds=instant)).astimezone(zone).utcoffset()
        assert delta is not None
        return int(delta.total_seconds())

    periods = []
    place, offset = after, offset_at(after)
    while place < _2437:
        end = place + _MONTH
        if (new := offset_at(end)) != offset:
            low, high = place, end
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if offset_at(middle) == offset else (low, middle)
            periods.append((high, new))
            offset = new
        place = end
    return periods
