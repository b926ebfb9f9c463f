"""What a site says of its compaction pools: where their applications run, how many at a time, and when.

[metastore.NAME.pool.POOL]   queue, windows, time_zone, applications, applications_outside, max_run
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from compactor.compaction.windows import Window, open_until, parse_window
from compactor.errors import BadSetting
from compactor.settings.setting import Setting, Unit, parse


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolKey:
    """One key of the table: what it is for, as the documents tell it."""

    key: str
    kind: str
    default: str
    effect: str


KEYS = (
    PoolKey(key="queue", kind="text", default="", effect="Spark queue, where neither table nor site names one."),
    PoolKey(
        key="windows",
        kind="list of texts",
        default="all hours",
        effect='The pool\'s hours, for example ["Mon-Fri 20:00-06:00", "Sat-Sun 00:00-24:00"].',
    ),
    PoolKey(key="time_zone", kind="text", default="UTC", effect="Whose clock the hours go by, such as Europe/Berlin."),
    PoolKey(
        key="applications",
        kind="number",
        default="any number",
        effect="Most applications at one time, within the pool's hours.",
    ),
    PoolKey(
        key="applications_outside",
        kind="number",
        default="0",
        effect="Most applications at one time outside of them. Where it is less, one stops when the hours end.",
    ),
    PoolKey(
        key="max_run",
        kind="duration",
        default="no bound",
        effect="Longest time of one application, such as 2h; it then stops at the next boundary, what is left waits.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPolicy:
    """What a site says of one compaction pool. Without windows its hours are all.

    ``applications`` at one time within its hours, ``applications_outside`` else; None is no bound.
    """

    name: str
    queue: str | None = None
    windows: tuple[Window, ...] = ()
    time_zone: str = "UTC"
    applications: int | None = None
    applications_outside: int | None = 0
    max_run_seconds: float | None = None


def parse_policy(name: str, table: Mapping[str, object], where: str = "compactor.toml") -> PoolPolicy:
    """What a table of the file says of the pool ``name``.

    Raises:
        BadSetting: a key that is not known, or a value that is not of its kind; the message names it.
    """
    for key in table:
        if key not in (known := [k.key for k in KEYS]):
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise BadSetting(f"{where}: key {key!r} is unknown, known are {', '.join(known)}{hint}")
    windows = table.get("windows", [])
    if not isinstance(windows, list) or not all(isinstance(text, str) for text in windows):
        raise BadSetting(f'{where}: windows = {windows!r}; wanted a list of texts, as in ["Mon-Fri 20:00-06:00"]')
    zone = _text(where, table, "time_zone") or "UTC"
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError) as error:
        raise BadSetting(f"{where}: time_zone {zone!r} is not known here; wanted one such as Europe/Berlin") from error
    outside = _count(where, table, "applications_outside")
    longest = table.get("max_run")
    return PoolPolicy(
        name=name,
        queue=_text(where, table, "queue"),
        windows=tuple(parse_window(text) for text in windows),
        time_zone=zone,
        applications=_count(where, table, "applications"),
        applications_outside=0 if outside is None else outside,
        max_run_seconds=None if longest is None else _seconds(where, longest),
    )


def _text(where: str, table: Mapping[str, object], key: str) -> str | None:
    value = table.get(key)
    if value is not None and not isinstance(value, str):
        raise BadSetting(f"{where}: {key} = {value!r} is no text")
    return value or None


def _count(where: str, table: Mapping[str, object], key: str) -> int | None:
    value = table.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise BadSetting(f"{where}: {key} = {value!r}; wanted a number from 0")
    return value


def _seconds(where: str, value: object) -> float:
    setting = Setting(key="max_run", default="1h", unit=Unit.SECONDS, minimum=1, effect="")
    try:
        return float(parse(setting, str(value))) / 1000
    except BadSetting as error:
        raise BadSetting(f"{where}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What may be started now: how many applications (None: any number), and after how long they are to stop."""

    applications: int | None
    run_seconds: float | None
    because: str


def allowance(policy: PoolPolicy, now: datetime, running: int) -> Allowance:
    """What a pool may start at ``now``, given in its zone, with ``running`` applications under way.

    An application is to stop at the end of the hours that it began in, where fewer may run after them, and after its
    longest time: at a unit's boundary, what is left being asked for anew.
    """
    end = open_until(policy.windows, now) if policy.windows else None
    inside = not policy.windows or end is not None
    bound = policy.applications if inside else policy.applications_outside
    left = None if bound is None else max(0, bound - running)
    limits = [policy.max_run_seconds] if policy.max_run_seconds is not None else []
    if end is not None and _is_fewer(policy.applications_outside, policy.applications):
        limits.append((end - now).total_seconds())
    hours = "within its hours" if inside else "outside of its hours"
    most = "any number" if bound is None else str(bound)
    return Allowance(
        applications=left,
        run_seconds=min(limits) if limits else None,
        because=f"pool {policy.name} is {hours}: {most} at one time, {running} under way",
    )


def _is_fewer(one: int | None, other: int | None) -> bool:
    return one is not None and (other is None or one < other)
