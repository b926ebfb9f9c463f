"""One setting: its names, its unit, and parsing its text into a value."""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass

from compactor.base.errors import BadSetting


class SettingUnit(enum.Enum):
    """The unit of a setting's text.

    A bare number is a duration in this unit; a suffix (``300s``) overrides it.
    """

    COUNT = "count"
    RATIO = "ratio"
    BYTES = "bytes"
    MILLISECONDS = "ms"
    SECONDS = "s"
    MINUTES = "min"
    HOURS = "h"
    DAYS = "d"
    BOOLEAN = "boolean"
    TEXT = "text"

    @property
    def is_duration(self) -> bool:
        return self in _MS_OF


_MS_OF = {
    SettingUnit.MILLISECONDS: 1,
    SettingUnit.SECONDS: 1_000,
    SettingUnit.MINUTES: 60_000,
    SettingUnit.HOURS: 3_600_000,
    SettingUnit.DAYS: 86_400_000,
}
#: The suffixes of Hive's ``TimeValidator`` (HiveConf), in milliseconds.
_SUFFIXES = {
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), 1.0),
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1_000.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60_000.0),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000.0),
    **dict.fromkeys(("d", "day", "days"), 86_400_000.0),
    **dict.fromkeys(("us", "usec", "microsecond", "microseconds"), 1e-3),
    **dict.fromkeys(("ns", "nsec", "nanosecond", "nanoseconds"), 1e-6),
}
_SIZES = {
    "": 1,
    "b": 1,
    "k": 2**10,
    "kb": 2**10,
    "m": 2**20,
    "mb": 2**20,
    "g": 2**30,
    "gb": 2**30,
    "t": 2**40,
    "tb": 2**40,
}
_RATIO = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[fF]?")
_NUMBER_AND_SUFFIX = re.compile(r"(-?[0-9]+)\s*([a-zA-Z]*)", re.ASCII)

#: The largest number in databases and in Hive.
LARGEST = 2**63 - 1
_DIGITS = len(str(LARGEST))
_LONGEST = 100  #: characters of a number: matching a longer text may take time proportional to its square

Value = int | float | bool | str


class Scope(enum.Enum):
    """The sources that may set a setting."""

    SITE = "site"  #: only the operator of Compactor
    TABLE = "table"  #: also a database, a table (``compactor.<key>``) and a request


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A key that Compactor knows.

    ``default`` is a text of ``unit``. ``honoured`` is true if Compactor acts on it; the others are Hive's, listed so
    that their presence in a ``hive-site.xml`` can be explained. ``choices``, if any, are all allowed texts from the
    tightest to the loosest; if ``tightest`` is set, no layer can loosen the value of a layer below it. ``of_tables`` are
    the least and the largest value that databases, tables and requests may set, if that is narrower than for the site.
    """

    key: str
    aliases: tuple[str, ...] = ()
    default: str
    unit: SettingUnit
    effect: str
    honoured: bool = True
    scope: Scope = Scope.SITE
    minimum: int | None = 0
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    tightest: bool = False
    of_tables: tuple[str, str] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """All names of the setting, the newest (alias 0) first.

        If one source has several, the first name wins.
        """
        return (*self.aliases[:1], self.key, *self.aliases[1:])


def parse(setting: Setting, text: str) -> Value:
    """Parses ``text``: into milliseconds for a duration, bytes for a size, the text itself for a text.

    Raises:
        BadSetting: ``text`` is not of the setting's unit, is out of range or is not among its choices.
    """
    stripped = text.strip()
    if setting.unit is SettingUnit.TEXT:
        if setting.choices and stripped not in setting.choices:
            raise _bad_value(setting, text, f"one of {', '.join(setting.choices)}")
        return stripped
    if setting.unit is SettingUnit.BOOLEAN:
        if stripped.lower() not in ("true", "false"):
            raise _bad_value(setting, text, "true or false")
        return stripped.lower() == "true"
    number = _parse_number(setting, text, stripped)
    if abs(number) > LARGEST:
        raise _bad_value(setting, text, f"at most {LARGEST}")
    if setting.minimum is not None and number < setting.minimum:
        raise _bad_value(setting, text, f"at least {setting.minimum}")
    if setting.maximum is not None and number > setting.maximum:
        raise _bad_value(setting, text, f"at most {setting.maximum}")
    return number


def _parse_number(setting: Setting, text: str, stripped: str) -> int | float:
    unit = setting.unit
    if len(stripped) > _LONGEST:
        raise _bad_value(
            setting, f"{stripped[:_LONGEST]}…", f"a number of at most {_LONGEST} characters, and at most {LARGEST}"
        )
    if unit is SettingUnit.RATIO:
        if _RATIO.fullmatch(stripped) is None or math.isinf(ratio := float(stripped.rstrip("fF"))):
            raise _bad_value(setting, text, "a number such as 0.1")
        return ratio
    match = _NUMBER_AND_SUFFIX.fullmatch(stripped)
    if match is not None and len(match.group(1).lstrip("-").lstrip("0")) > _DIGITS:
        raise _bad_value(setting, text, f"at most {LARGEST}")
    if match is None:
        raise _bad_value(
            setting, text, _EXPECTED.get(unit, "a number with or without a unit, such as 300s, 12h or 5000ms")
        )
    number, suffix = int(match.group(1)), match.group(2).lower()
    if unit is SettingUnit.COUNT and not suffix:
        return number
    if unit is SettingUnit.BYTES and suffix in _SIZES:
        return number * _SIZES[suffix]
    if unit.is_duration and not suffix:
        return number * _MS_OF[unit]
    if unit.is_duration and suffix in _SUFFIXES:
        return int(number * _SUFFIXES[suffix])
    raise _bad_value(setting, text, _EXPECTED.get(unit, "a unit among ms, s, min, h and d"))


_EXPECTED = {SettingUnit.COUNT: "a whole number", SettingUnit.BYTES: "a size such as 1048576, 64MB or 50GB"}


def _bad_value(setting: Setting, text: str, expected: str) -> BadSetting:
    hint = " (references such as ${...} are not resolved: write the value itself)" if "${" in text else ""
    return BadSetting(f"{setting.key} = {text!r}: expected {expected}{hint}")
