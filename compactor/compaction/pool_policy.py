"""The policies of compaction pools: where and when their applications run, how many at a time, and off-peak settings.

[metastore.NAME.pool.POOL]   queue, windows, time_zone, applications, applications_outside, max_run, off_peak,
                             off_peak_settings
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from compactor.base.errors import BadSetting
from compactor.compaction.time_windows import Window, open_until, parse_window
from compactor.settings.catalogue import lookup
from compactor.settings.setting import Scope, Setting, SettingUnit, parse

POOL = "hive.compactor.worker.pool"  #: the setting that says which pool a table is in
DEFAULT = "default"  #: a policy's name for the pool of requests without one


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
    """The number of applications that may start now (None: any number), and the seconds after which they must stop."""

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
