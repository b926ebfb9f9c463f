"""Values as every judge reports them, and how they travel to and from Java."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from functools import cache
from typing import Any

from pyorc import TypeDescription, TypeKind

Row = tuple[Any, ...]
_NANOS = 10**9
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400  #: after which the Gregorian calendar repeats itself
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_EPOCH_JULIAN_DAY = 2_440_588
GREGORIAN = "1582-10-15"  #: the first day that all calendars agree about
_EXACT = Context(prec=100)


class Unreadable(Exception):
    """A judge cannot read a file; the message is its own."""


def shown(rows: Iterable[Row]) -> list[str]:
    """Returns rows as texts that are equal exactly if the rows are the same."""
    return list(map(repr, rows))


def date_text(days: int) -> str:
    """Returns the date that is so many days after 1970-01-01, as Java's LocalDate prints it."""
    cycles, day = divmod(days + _EPOCH - 1, _CYCLE_DAYS)
    date = datetime.date.fromordinal(day + 1)
    year = date.year + cycles * _CYCLE_YEARS
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{date.month:02}-{date.day:02}"


def date_days(text: str) -> int:
    """Returns the days from 1970-01-01 to the date of a text."""
    year, month, day = (int(part) for part in text.lstrip("+-").split("-"))
    cycles, year = divmod((-year if text.startswith("-") else year) - 1, _CYCLE_YEARS)
    return datetime.date(year + 1, month, day).toordinal() - _EPOCH + cycles * _CYCLE_DAYS


def time_text(seconds: int, nanos: int) -> str:
    """Returns the wall clock that is so many seconds after 1970-01-01 00:00:00 on it."""
    days, second = divmod(seconds, 86_400)
    return f"{date_text(days)} {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{nanos:09}"


def time_nanos(text: str) -> int:
    """Returns the nanoseconds from 1970-01-01 00:00:00 to a wall clock."""
    date, _, clock = text.removesuffix("Z").partition(" ")
    hour, minute, second = clock.split(":")
    whole, _, fraction = second.partition(".")
    seconds = date_days(date) * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(whole)
    return seconds * _NANOS + int(fraction.ljust(9, "0") or 0)


def without_julian_days(text: str) -> str:
    """Returns a row's text as a reader shows it that takes the days of Java's Julian calendar for Gregorian ones."""
    return re.sub(r"(?<=')(\d{4})-(\d\d)-(\d\d)(?=[ '])", _shift_julian_day, text)


def _shift_julian_day(match: re.Match[str]) -> str:
    if match[0] >= GREGORIAN:
        return match[0]
    year, month, day = map(int, match.groups())
    months = 12 * (year + 4800) + month - 3  # since March of 4801 BC: years that end with February
    julian_day = day + (153 * (months % 12) + 2) // 5 + 1461 * (months // 12) // 4 - 32_083
    return date_text(julian_day - _EPOCH_JULIAN_DAY)


def with_early_seconds(text: str) -> str:
    """Returns a row's text as Trino shows it: fractions below a millisecond before 1970 are a second too early."""
    return re.sub(r"(?<=')[\d-]{10} [\d:]{8}\.000(?!0{6})\d{6}(?=Z?')", _shift_early_second, text)


def _shift_early_second(match: re.Match[str]) -> str:
    return match[0] if match[0] >= "1970" else time_text(*divmod(time_nanos(match[0]) - _NANOS, _NANOS))


def decimal_value(text: str | Decimal) -> Decimal:
    """Returns a decimal without zeros at its end; zero has no sign."""
    value = _EXACT.normalize(Decimal(text))
    return value if value else Decimal(0)


def char_value(text: str) -> str:
    """Returns the value of a char, whose spaces at the end mean nothing."""
    return text.rstrip(" ")


@cache
def parse_schema(schema: str) -> TypeDescription:
    """Returns the type that a schema describes."""
    return TypeDescription.from_string(schema)


def row_type(schema: str) -> TypeDescription:
    """Returns the type of a row; of a full ACID file that of the inner row."""
    whole = parse_schema(schema)
    is_acid = list(whole.fields)[:1] == ["operation"] and len(whole.fields) == 6
    return whole.fields["row"] if is_acid else whole


def children(kind: TypeDescription) -> Sequence[TypeDescription]:
    """Returns the types of which a nested type consists."""
    match kind.kind:
        case TypeKind.STRUCT:
            return list(kind.fields.values())
        case TypeKind.LIST:
            return [kind.type]
        case TypeKind.MAP:
            return [kind.key, kind.value]
        case TypeKind.UNION:
            return list(kind.cont_types)
    return []


def from_json(schema: str) -> Callable[[Any], Row]:
    """Returns the function that turns what Java says of a row into its values."""
    return _reader(parse_schema(schema))


def to_json(schema: str) -> Callable[[Row], Any]:
    """Returns the function that turns the values of a row into what Java is told."""
    return _writer(parse_schema(schema))


def _same(value: Any) -> Any:
    return value


def _reader(kind: TypeDescription) -> Callable[[Any], Any]:
    inner = [_or_none(_reader(child)) for child in children(kind)]
    match kind.kind:
        case TypeKind.FLOAT | TypeKind.DOUBLE:
            return float.fromhex
        case TypeKind.STRING | TypeKind.VARCHAR:
            return lambda text: text.encode("latin-1").decode("utf-8", "surrogateescape")
        case TypeKind.CHAR:
            return lambda text: char_value(text.encode("latin-1").decode("utf-8", "surrogateescape"))
        case TypeKind.BINARY:
            return lambda text: text.encode("latin-1")
        case TypeKind.DECIMAL:
            return decimal_value
    return _nested(kind.kind, inner, tuple)


def _writer(kind: TypeDescription) -> Callable[[Any], Any]:
    inner = [_or_none(_writer(child)) for child in children(kind)]
    match kind.kind:
        case TypeKind.FLOAT | TypeKind.DOUBLE:
            return _java_float
        case TypeKind.STRING | TypeKind.VARCHAR | TypeKind.CHAR:
            return lambda text: text.encode("utf-8", "surrogateescape").decode("latin-1")
        case TypeKind.BINARY:
            return lambda data: data.decode("latin-1")
        case TypeKind.DECIMAL:
            return lambda value: f"{value:f}"
    return _nested(kind.kind, inner, list)


def _nested(
    kind: TypeKind, inner: Sequence[Callable[[Any], Any]], make: Callable[[Iterable[Any]], Any]
) -> Callable[[Any], Any]:
    match kind:
        case TypeKind.STRUCT:
            return lambda values: make(part(value) for part, value in zip(inner, values, strict=True))
        case TypeKind.LIST:
            return lambda values: make(map(inner[0], values))
        case TypeKind.MAP:
            return lambda pairs: make(make((inner[0](key), inner[1](value))) for key, value in pairs)
        case TypeKind.UNION:
            return lambda value: make((value[0], inner[value[0]](value[1])))
    return _same


def _or_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return _same if convert is _same else lambda value: None if value is None else convert(value)


def _java_float(value: float) -> str:
    text = float(value).hex()
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text, text)
