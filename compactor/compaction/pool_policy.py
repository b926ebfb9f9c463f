"""The policies of compaction pools: places, times and number of applications, off-peak settings.

[metastore.NAME.pool.POOL]   queue, windows, time_zone, applications, applications_outside, max_run, off_peak,
                             off_peak_settings
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from compactor.base.errors import BadSetting
from compactor.compaction.queue_entry import Entry
from compactor.settings.catalogue import lookup
from compactor.settings.precedence import Settings
from compactor.settings.setting import Scope, Setting, SettingUnit, parse

POOL = "hive.compactor.worker.pool"  #: the setting that says which pool a table is in
DEFAULT = "default"  #: a policy's name for the pool of requests without one
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MINUTES = 24 * 60
_WEEK_MINUTES = 7 * _DAY_MINUTES
_TEXT = re.compile(
    r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))?\s+)?(?P<from>\d\d?:\d\d)-(?P<to>\d\d?:\d\d)",
    re.IGNORECASE | re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKey:
    """One key of a pool's table and its documentation."""

    key: str
    kind: str
    default: str
    effect: str


KEYS = (
    PoolKey(key="queue", kind="text", default="", effect="Spark queue, if neither the table nor the site names one."),
    PoolKey(
        key="windows",
        kind="list of texts",
        default="all hours",
        effect='The pool\'s hours, for example ["Mon-Fri 20:00-06:00", "Sat-Sun 00:00-24:00"].',
    ),
    PoolKey(key="time_zone", kind="text", default="UTC", effect="Time zone of the hours, such as Europe/Berlin."),
    PoolKey(
        key="applications",
        kind="number",
        default="any number",
        effect="Maximum number of applications at a time within the pool's hours.",
    ),
    PoolKey(
        key="applications_outside",
        kind="number",
        default="0",
        effect="Maximum number of applications at a time outside the pool's hours. If it is lower than "
        "`applications`, applications stop when the hours end.",
    ),
    PoolKey(
        key="max_run",
        kind="duration",
        default="no bound",
        effect="Maximum run time of one application, such as 2h; it then stops at the next boundary, and the rest waits.",
    ),
    PoolKey(
        key="off_peak",
        kind="list of texts",
        default="no hours",
        effect='Off-peak hours, written like windows, for example ["22:00-06:00"]; off_peak_settings apply in them.',
    ),
    PoolKey(
        key="off_peak_settings",
        kind="table",
        default="none",
        effect="Settings that a table may have, such as thresholds, in force for the pool's tables in off-peak hours "
        "unless the table or its database sets them.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """A site's policy for one compaction pool. Without windows, every hour is within the pool's hours.

    ``applications`` may run at a time within its hours, ``applications_outside`` outside them; None is no bound.
    """

    name: str
    queue: str | None = None
    windows: tuple[Window, ...] = ()
    time_zone: str = "UTC"
    applications: int | None = None
    applications_outside: int | None = 0
    max_run_seconds: float | None = None
    off_peak: tuple[Window, ...] = ()
    off_peak_settings: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def parse_policy(name: str, table: Mapping[str, object], where: str = "compactor.toml") -> PoolPolicy:
    """Parses the policy of the pool ``name`` from its table of the file.

    Raises:
        BadSetting: a key is unknown or a value is not of its kind; the message names it.
    """
    for key in table:
        if key not in (known := [k.key for k in KEYS]):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadSetting(f"{where}: key {key!r} is unknown, known are {', '.join(known)}{hint}")
    zone = _text(where, table, "time_zone") or "UTC"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise BadSetting(
            f"{where}: time_zone {zone!r} is not known here; expected one such as Europe/Berlin"
        ) from error
    outside = _count(where, table, "applications_outside")
    max_run = table.get("max_run")
    off_peak, off_peak_settings = (
        _windows(where, table, "off_peak"),
        _settings(where, table.get("off_peak_settings", {})),
    )
    if bool(off_peak) is not bool(off_peak_settings):
        raise BadSetting(f"{where}: off_peak and off_peak_settings need each other; expected both or neither")
    return PoolPolicy(
        name=name,
        queue=_text(where, table, "queue"),
        windows=_windows(where, table, "windows"),
        time_zone=zone,
        applications=_count(where, table, "applications"),
        applications_outside=0 if outside is None else outside,
        max_run_seconds=None if max_run is None else _seconds(where, max_run),
        off_peak=off_peak,
        off_peak_settings=MappingProxyType(off_peak_settings),
    )


def _windows(where: str, table: Mapping[str, object], key: str) -> tuple[Window, ...]:
    texts = table.get(key, [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise BadSetting(f'{where}: {key} = {texts!r}; expected a list of texts, as in ["Mon-Fri 20:00-06:00"]')
    return tuple(parse_window(text) for text in texts)


def _settings(where: str, table: object) -> dict[str, str]:
    """Returns the values of ``off_peak_settings`` as texts.

    Raises:
        BadSetting: a table may not set the key, it may not depend on the hour, or its value is bad.
    """
    if not isinstance(table, Mapping):
        raise BadSetting(f"{where}: off_peak_settings = {table!r}; expected a table of settings and their values")
    settings = {}
    for key, value in table.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            setting = lookup(str(key))
            parse(setting, text)
        except BadSetting as error:
            raise BadSetting(f"{where}: off_peak_settings: {error}") from None
        if setting.scope is not Scope.TABLE or setting.tightest or setting.key == POOL:
            raise BadSetting(
                f"{where}: off_peak_settings: {setting.key} is the same at every hour; expected settings that a table may "
                "have, such as hive.compactor.delta.num.threshold"
            )
        settings[setting.key] = text
    return settings


def _text(where: str, table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise BadSetting(f"{where}: {key} = {value!r}; expected a text")
    return value or None


def _count(where: str, table: Mapping[str, object], key: str) -> int | None:
    value = table.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise BadSetting(f"{where}: {key} = {value!r}; expected a number from 0")
    return value


def _seconds(where: str, value: object) -> float:
    setting = Setting(key="max_run", default="1h", unit=SettingUnit.SECONDS, minimum=1, effect="")
    try:
        return float(parse(setting, str(value))) / 1000
    except BadSetting as error:
        raise BadSetting(f"{where}: {error}") from None


def settings_at(policy: PoolPolicy, now: datetime) -> Mapping[str, str]:
    """Returns the off-peak settings in force for the pool's tables at ``now`` (in its zone)."""
    return policy.off_peak_settings if open_until(policy.off_peak, now) is not None else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The number of applications that may start now, and the seconds after which they must stop.

    The number None allows any number.
    """

    applications: int | None
    run_seconds: float | None
    because: str


def compute_allowance(policy: PoolPolicy, now: datetime, running: int) -> Allowance:
    """Returns what a pool may start at ``now`` (in its zone) while ``running`` applications are under way.

    An application must stop after its maximum run time, and when the pool's hours end if fewer may run outside them. It
    stops at a unit's boundary; the rest is requested again.
    """
    end = open_until(policy.windows, now) if policy.windows else None
    inside = not policy.windows or end is not None
    bound = policy.applications if inside else policy.applications_outside
    remaining = None if bound is None else max(0, bound - running)
    limits = [policy.max_run_seconds] if policy.max_run_seconds is not None else []
    if end is not None and _is_fewer(policy.applications_outside, policy.applications):
        limits.append((end - now).total_seconds())
    hours = "within its hours" if inside else "outside its hours"
    limit = "any number" if bound is None else str(bound)
    return Allowance(
        applications=remaining,
        run_seconds=min(limits) if limits else None,
        because=f"pool {policy.name} is {hours}: {limit} at a time, {running} under way",
    )


def _is_fewer(number: int | None, other: int | None) -> bool:
    return number is not None and (other is None or number < other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """An entry, the bytes it reads and where it runs."""

    entry: Entry
    bytes: int
    route: Route


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteBatch:
    """Entries of one route, ordered by id."""

    route: Route
    items: tuple[Item, ...]

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.items)


def group_batches(items: Iterable[Item], max_bytes: int) -> tuple[RouteBatch, ...]:
    """Returns all items in batches, filled in the order of ``items``.

    A batch exceeds ``max_bytes`` only if one item alone does.
    """
    open_batches: dict[Route, list[Item]] = {}
    filled: dict[Route, int] = {}
    done: list[list[Item]] = []
    for item in items:
        current = open_batches.get(item.route)
        if current is None or filled[item.route] + item.bytes > max_bytes:
            current = open_batches[item.route] = []
            filled[item.route] = 0
            done.append(current)
        current.append(item)
        filled[item.route] += item.bytes
    return tuple(RouteBatch(route=batch[0].route, items=tuple(batch)) for batch in done)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """Pool, Spark queue, user and Spark configuration of an application.

    ``pool`` None is the default pool, ``queue`` None lets the cluster choose, ``run_as`` None is the process's user.
    ``conf`` holds sorted pairs of ``spark.*`` keys and values that may be seen, so that routes compare and hash. Secret ones
    are the same for all applications of a site; each launcher reads them again.
    """

    pool: str | None = None
    queue: str | None = None
    run_as: str | None = None
    conf: tuple[tuple[str, str], ...] = ()

    @property
    def digest(self) -> str:
        """A hash of the route in 64 characters."""
        parts = [self.pool, self.queue, self.run_as, self.conf]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def route(entry: Entry, settings: Settings, *, run_as: str | None) -> Route:
    """Returns the route of ``entry``.

    Args:
        settings: the entry's settings. They include those of its table and request.
        run_as: the user as ``site.run_as`` has decided; the entry's own only records who compacted.
    """
    return Route(
        pool=entry.pool or None,
        queue=settings.text("hive.compactor.job.queue") or None,
        run_as=run_as,
        conf=tuple(sorted(settings.public_spark_conf.items())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The same hours on some days, by wall-clock time.

    A window that ends before it begins runs into the next day.
    """

    days: frozenset[int]  #: on which it begins; 0 is Monday
    begin: int  #: minutes since midnight
    end: int  #: minutes since midnight; 1440 is midnight

    @property
    def spans(self) -> Iterable[tuple[int, int]]:
        """The begin and end of each day's hours in minutes since Monday 00:00.

        The end may lie in the next week.
        """
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
    """Returns the end of the window around ``now`` (in the pool's zone), adjoining windows joined.

    Returns None outside.

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
