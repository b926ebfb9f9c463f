"""Numbers, decimals, dates, timestamps and texts as Java prints them.

**Floating point.** Hive 4.1 runs on Java 17. Until Java 18, ``toString`` develops digit after digit until no other number
can be meant, with shortcuts where integers of 32 or 64 bits are enough. So some numbers get more digits than the shortest
text that reads back, or other digits: 1E23 becomes 9.999999999999999E22. The functions here develop digits in the same way,
with integers of the same width.

**Dates.** Java's calendar is Julian until 1582-10-04 and Gregorian from the next day, 1582-10-15. A file counts days and
times in its own calendar. Hive's reader keeps the date as written, not the day: 1500-01-01 of the proleptic Gregorian
calendar stays 1500-01-01, which is another day in the Julian one. Times stay as written too. Java alters those within the
hour that the local time zone skips in spring; these functions do not.
"""

from __future__ import annotations

import math
import re
import struct
import time
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import NamedTuple

from compactor.orc.format.hive_types import valid_name

_DIGITS = 38  #: of a decimal
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST = 1000  #: characters of a number; more could take much time
_EXACT = Context(prec=2 * _LONGEST)
_QUOTED = re.compile(r"`((?:[^`]|``)*)`(?!`)")
_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
#: What Gson writes for characters that JSON, or JavaScript, does not allow in a text.
_ESCAPES = {number: _SHORT.get(number, f"\\u{number:04x}") for number in (*range(32), 34, 92, 0x2028, 0x2029)}


def round_text(value: float, places: int) -> str:
    """Returns what a ``DecimalFormat`` such as ``##.##`` prints.

    It has at most ``places`` digits after the point, and rounds half to even.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    number = Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    text = format(number, "f").rstrip("0").rstrip(".")
    return "-0" if value < 0 and not number else text


def decimal_text(text: str) -> str | None:
    """Returns ``text`` as a ``HiveDecimal`` prints it; None if it is not a number.

    A ``HiveDecimal`` has at most 38 digits, the last one rounded half up, and no zeros at its end.
    """
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    places = _DIGITS - max(number.adjusted() + 1, 0)
    if number and places < 0:
        return None
    rounded_up = number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _EXACT) if number else number
    return plain_decimal(rounded_up) if rounded_up.adjusted() < _DIGITS else None


def plain_decimal(number: Decimal) -> str:
    """Returns all digits of ``number`` without zeros at their end; zero has no sign."""
    if not number:
        return "0"
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def quote(text: str) -> str:
    """Returns ``text`` as a JSON string of Gson, which escapes only what it must."""
    return f'"{text.translate(_ESCAPES)}"'


def field_name(name: str) -> str:
    """Returns a field's name in a file as Java's reader understands it.

    Java takes a name that begins with a backtick for a quoted one, which ends at the next single backtick.
    """
    name = valid_name(name)
    match = _QUOTED.match(name if name.startswith("`") else f"`{name}`")
    return name if match is None else match[1].replace("``", "`")


def decode_text(data: bytes) -> str:
    """Decodes UTF-8; U+FFFD replaces invalid bytes."""
    return data.decode("utf-8", "replace")


_FRACTION = 52  #: bits of a double's fraction
_FLOAT_FRACTION = 23
_SMALL_EXPONENTS = range(-21, 63)  #: of two, for which a number may be developed as a whole one
_FIVES = [5**power for power in range(27)]  #: the powers that fit into 63 bits
_FIVE_BITS = [power.bit_length() for power in _FIVES[:25]] + [59, 61]
_PLAIN = range(-3, 8)  #: places of the first digit for which Java prints no exponent


class _Digits(NamedTuple):
    """Decimal digits; the first stands ``place`` places before the decimal point."""

    text: str
    place: int


class _Terms(NamedTuple):
    """``fraction`` times powers of five and two, the unit of its digits, and half the next distance.

    That is the distance to the next number.
    """

    fraction: int
    fraction_bits: int
    number: tuple[int, int]
    unit: tuple[int, int]
    step: tuple[int, int]


def double_text(value: float) -> str:
    """Returns ``Double.toString``."""
    bits: int = struct.unpack(">q", struct.pack(">d", abs(value)))[0]
    return _float_text(value, bits >> _FRACTION, bits & ((1 << _FRACTION) - 1), _FRACTION, 1023)


def float_text(value: float) -> str:
    """Returns ``Float.toString`` of the nearest float."""
    try:
        packed = struct.pack(">f", abs(value))
    except OverflowError:
        return "-Infinity" if value < 0 else "Infinity"
    bits: int = struct.unpack(">i", packed)[0]
    return _float_text(value, bits >> _FLOAT_FRACTION, bits & ((1 << _FLOAT_FRACTION) - 1), _FLOAT_FRACTION, 127)


def _float_text(value: float, exponent: int, fraction: int, width: int, bias: int) -> str:
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return f"{sign}Infinity"
    if exponent == fraction == 0:
        return f"{sign}0.0"
    if exponent == 0:
        significant = fraction.bit_length()
        shift = width + 1 - significant
        fraction, exponent = fraction << shift, 1 - shift
    else:
        significant, fraction = width + 1, fraction | 1 << width
    return sign + _format_digits(_develop(exponent - bias, fraction << (_FRACTION - width), significant))


def _format_digits(digits: _Digits) -> str:
    text, place = digits
    if 0 < place < _PLAIN.stop:
        return f"{text[:place].ljust(place, '0')}.{text[place:] or '0'}"
    if _PLAIN.start < place <= 0:
        return f"0.{'0' * -place}{text}"
    return f"{text[0]}.{text[1:] or '0'}E{place - 1}"


def _develop(exponent: int, fraction: int, significant: int) -> _Digits:
    """Develops the digits of ``fraction`` times 2**``exponent``.

    ``fraction`` has 53 bits, of which ``significant`` are known.
    """
    zeros = (fraction & -fraction).bit_length() - 1
    bits = _FRACTION + 1 - zeros
    tiny = max(0, bits - exponent - 1)
    if exponent in _SMALL_EXPONENTS and tiny == 0:
        return _develop_whole(exponent, fraction, significant)
    first = _estimate(fraction, exponent)
    fives, tens = max(0, -first), max(0, first)
    number, unit = fives + tiny + exponent, tens + tiny
    step = number - significant
    number -= bits - 1
    common = min(number, unit)
    number, unit, step = number - common, unit - common, step - common
    if bits == 1:
        step -= 1  # the number below a power of two is half as far away
    if step < 0:
        number, unit, step = number - step, unit - step, 0
    return _develop_digits(_Terms(fraction >> zeros, bits, (fives, number), (tens, unit), (fives, step)), first)


def _develop_whole(exponent: int, fraction: int, significant: int) -> _Digits:
    """Develops a whole number without the digits that its last bit does not determine."""
    value = fraction << (exponent - _FRACTION) if exponent >= _FRACTION else fraction >> (_FRACTION - exponent)
    unknown = exponent - significant - 1
    dropped = int(math.log10(2) * unknown) if unknown > 1 else 0
    if dropped:
        value, rest = divmod(value, 10**dropped)
        value += rest >= 10**dropped // 2
    text = str(value)
    return _Digits(text.rstrip("0"), len(text) + dropped)


def _estimate(fraction: int, exponent: int) -> int:
    """Returns the exponent of the first digit, or one more, by Java's approximation of the logarithm."""
    mantissa = fraction / (1 << _FRACTION)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _develop_digits(terms: _Terms, first: int) -> _Digits:
    width = _width(terms)
    number, unit, step = (
        factor * 5**five << two
        for factor, (five, two) in ((terms.fraction, terms.number), (1, terms.unit), (1, terms.step))
    )
    ten = 10 * unit
    digit, rest = divmod(number, unit)
    rest, step = 10 * rest, _wrap(10 * step, width)
    low, high = rest < step, _is_high(rest, step, ten, width)
    digits = ""
    if digit == 0 and not high:
        first -= 1
    else:
        digits = str(digit)
    if first not in _PLAIN:
        low = high = False  # a number with an exponent has at least two digits
    while not low and not high:
        digit, rest = divmod(rest, unit)
        rest, step = 10 * rest, _wrap(10 * step, width)
        low, high = rest < step, _is_high(rest, step, ten, width)
        if width and step <= 0:
            low = high = True
        digits += str(digit)
    if high and (not low or 2 * rest > ten or (2 * rest == ten and int(digits[-1]) % 2)):
        return _round_up(digits, first + 1)
    return _Digits(digits, first + 1)


def _width(terms: _Terms) -> int:
    """Returns the width of the integers in which Java develops the digits; 0 for any width."""
    five, two = terms.number
    number = terms.fraction_bits + two + _bits_of_five(five)
    five, two = terms.unit
    ten = two + 1 + _bits_of_five(five + 1)
    if number < 64 and ten < 64:
        return 32 if number < 32 and ten < 32 else 64
    return 0


def _bits_of_five(power: int) -> int:
    return _FIVE_BITS[power] if power < len(_FIVE_BITS) else 3 * power


def _is_high(rest: int, step: int, ten: int, width: int) -> bool:
    return _wrap(rest + step, width) > ten if width else rest + step >= ten


def _wrap(value: int, width: int) -> int:
    """Returns ``value`` as an integer of ``width`` bits that may overflow, as in Java."""
    if not width:
        return value
    half = 1 << (width - 1)
    return (value + half) % (2 * half) - half


def _round_up(digits: str, place: int) -> _Digits:
    kept = digits.rstrip("9")
    if not kept:
        return _Digits("1" + "0" * (len(digits) - 1), place + 1)
    return _Digits(kept[:-1] + str(int(kept[-1]) + 1) + "0" * (len(digits) - len(kept)), place)


_GREGORIAN = -141_427  #: the day 1582-10-15, as days since 1970-01-01
_GAP = 10  #: days that the calendar omits before it
_EPOCH_JULIAN, _EPOCH_GREGORIAN = 2_472_670, 719_468  #: days from March 1 of the year -4800 and 0 to 1970-01-01
_DAY = 86_400
_1900 = -2_208_988_800  #: seconds from 1970 to 1900


class Date(NamedTuple):
    """A day of a calendar; the year before 1 is 0."""

    year: int
    month: int
    day: int


def find_date(day: int, *, proleptic: bool) -> Date:
    """Returns the date that Java's reader shows for a file's ``day`` since 1970-01-01, in either calendar."""
    if day >= _GREGORIAN:
        return _gregorian(day)
    if not proleptic:
        return _julian(day)
    # Java reads the omitted days as Julian ones and shows the same days in the Gregorian calendar.
    return _gregorian(day + _GAP) if day >= _GREGORIAN - _GAP else _gregorian(day)


def date_text(day: int, *, proleptic: bool) -> str:
    """Returns a value of type date."""
    date = find_date(day, proleptic=proleptic)
    return f"{_year_of_era(date):04d}-{date.month:02d}-{date.day:02d}"


def hybrid_date_text(day: int, *, proleptic: bool) -> str:
    """Returns a date of column statistics, which names its calendar."""
    date = find_date(day, proleptic=proleptic)
    era = "AD" if date.year > 0 else "BC"
    return f"Hybrid {era} {_year_of_era(date)}-{date.month:02d}-{date.day:02d}"


def timestamp_text(seconds: int, nanos: int, *, proleptic: bool) -> str:
    """Returns a timestamp with at least one digit of the second's fraction and no zeros at its end."""
    day, second = divmod(seconds, _DAY)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    return f"{date_text(day, proleptic=proleptic)} {clock}.{f'{nanos:09d}'.rstrip('0') or '0'}"


def local_seconds(seconds: int) -> int:
    """Returns the wall clock of this machine's time zone at an instant, as seconds in UTC.

    ORC uses Java's older classes. They know no offsets before 1900 and take the zone's standard time of today.
    """
    if seconds < _1900:
        return seconds - time.timezone
    try:
        return seconds + time.localtime(seconds).tm_gmtoff
    except (OverflowError, OSError, ValueError):
        return seconds


def _year_of_era(date: Date) -> int:
    return date.year if date.year > 0 else 1 - date.year


def _gregorian(day: int) -> Date:
    era, rest = divmod(day + _EPOCH_GREGORIAN, 146_097)
    year = (rest - rest // 1460 + rest // 36_524 - rest // 146_096) // 365
    return _from_march_year(era * 400 + year, rest - (365 * year + year // 4 - year // 100))


def _julian(day: int) -> Date:
    cycle, rest = divmod(day + _EPOCH_JULIAN, 1461)
    year = min(rest // 365, 3)
    return _from_march_year(cycle * 4 + year - 4800, rest - 365 * year)


def _from_march_year(year: int, day: int) -> Date:
    """Returns the date of ``day`` in a year that starts in March, so that the leap day is the last one."""
    month = (5 * day + 2) // 153
    return Date(year + month // 10, month + 3 - 12 * (month // 10), day - (153 * month + 2) // 5 + 1)
