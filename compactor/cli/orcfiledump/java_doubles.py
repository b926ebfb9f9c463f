"""Floating point as the ``toString`` of Java 17 prints it, on which Hive 4.1 runs.

Up to Java 18 it develops digit after digit until no other number is meant, with shortcuts where integers of 32 or 64 bits
are enough. So some numbers have more digits than the shortest text that is read back, or others: 1E23 is printed as
9.999999999999999E22. They are developed here in the same way, and in integers of the same width.
"""

from __future__ import annotations

import math
import struct
from typing import NamedTuple

_FRACTION = 52  #: bits of a double's fraction
_FLOAT_FRACTION = 23
_SMALL_EXPONENTS = range(-21, 63)  #: of two, between which a number may be developed as a whole one
_FIVES = [5**power for power in range(27)]  #: the powers that fit into 63 bits
_FIVE_BITS = [power.bit_length() for power in _FIVES[:25]] + [59, 61]
_PLAIN = range(-3, 8)  #: places of the first digit with which no exponent is printed


class _Digits(NamedTuple):
    """Decimal digits, of which the first stands ``place`` places before the point."""

    text: str
    place: int


class _Terms(NamedTuple):
    """A number as ``fraction`` times powers of five and two, the unit of its digits, and half a step to its neighbours."""

    fraction: int
    fraction_bits: int
    number: tuple[int, int]
    unit: tuple[int, int]
    step: tuple[int, int]


def double_text(value: float) -> str:
    """Returns ``Double.toString``."""
    bits: int = struct.unpack(">q", struct.pack(">d", abs(value)))[0]
    return _text(value, bits >> _FRACTION, bits & ((1 << _FRACTION) - 1), _FRACTION, 1023)


def float_text(value: float) -> str:
    """Returns ``Float.toString`` of the nearest float."""
    try:
        packed = struct.pack(">f", abs(value))
    except OverflowError:
        return "-Infinity" if value < 0 else "Infinity"
    bits: int = struct.unpack(">i", packed)[0]
    return _text(value, bits >> _FLOAT_FRACTION, bits & ((1 << _FLOAT_FRACTION) - 1), _FLOAT_FRACTION, 127)


def _text(value: float, exponent: int, fraction: int, width: int, bias: int) -> str:
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
    return sign + _formatted(_developed(exponent - bias, fraction << (_FRACTION - width), significant))


def _formatted(digits: _Digits) -> str:
    text, place = digits
    if 0 < place < _PLAIN.stop:
        return f"{text[:place].ljust(place, '0')}.{text[place:] or '0'}"
    if _PLAIN.start < place <= 0:
        return f"0.{'0' * -place}{text}"
    return f"{text[0]}.{text[1:] or '0'}E{place - 1}"


def _developed(exponent: int, fraction: int, significant: int) -> _Digits:
    """Develops ``fraction`` (53 bits) times two to the power of ``exponent``, of which ``significant`` bits are known."""
    zeros = (fraction & -fraction).bit_length() - 1
    bits = _FRACTION + 1 - zeros
    tiny = max(0, bits - exponent - 1)
    if exponent in _SMALL_EXPONENTS and tiny == 0:
        return _whole(exponent, fraction, significant)
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
    return _by_digits(_Terms(fraction >> zeros, bits, (fives, number), (tens, unit), (fives, step)), first)


def _whole(exponent: int, fraction: int, significant: int) -> _Digits:
    """Develops a whole number, without the decimal digits that its last bit does not determine."""
    value = fraction << (exponent - _FRACTION) if exponent >= _FRACTION else fraction >> (_FRACTION - exponent)
    unknown = exponent - significant - 1
    dropped = int(math.log10(2) * unknown) if unknown > 1 else 0
    if dropped:
        value, rest = divmod(value, 10**dropped)
        value += rest >= 10**dropped // 2
    text = str(value)
    return _Digits(text.rstrip("0"), len(text) + dropped)


def _estimate(fraction: int, exponent: int) -> int:
    """Returns the decimal exponent of the first digit, or one more: Java's own approximation of the logarithm."""
    mantissa = fraction / (1 << _FRACTION)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _by_digits(terms: _Terms, first: int) -> _Digits:
    width = _width(terms)
    number, unit, step = (
        factor * 5**five << two
        for factor, (five, two) in ((terms.fraction, terms.number), (1, terms.unit), (1, terms.step))
    )
    ten = 10 * unit
    digit, rest = divmod(number, unit)
    rest, step = 10 * rest, _wrapped(10 * step, width)
    low, high = rest < step, _is_high(rest, step, ten, width)
    digits = ""
    if digit == 0 and not high:
        first -= 1
    else:
        digits = str(digit)
    if first not in _PLAIN:
        low = high = False  # with an exponent there are two digits at least
    while not low and not high:
        digit, rest = divmod(rest, unit)
        rest, step = 10 * rest, _wrapped(10 * step, width)
        low, high = rest < step, _is_high(rest, step, ten, width)
        if width and step <= 0:
            low = high = True
        digits += str(digit)
    if high and (not low or 2 * rest > ten or (2 * rest == ten and int(digits[-1]) % 2)):
        return _rounded_up(digits, first + 1)
    return _Digits(digits, first + 1)


def _width(terms: _Terms) -> int:
    """Returns the bits of the integers in which Java develops the digits; 0 if they have any length."""
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
    return _wrapped(rest + step, width) > ten if width else rest + step >= ten


def _wrapped(value: int, width: int) -> int:
    """Returns ``value`` as an integer of ``width`` bits, which Java lets overflow."""
    if not width:
        return value
    half = 1 << (width - 1)
    return (value + half) % (2 * half) - half


def _rounded_up(digits: str, place: int) -> _Digits:
    kept = digits.rstrip("9")
    if not kept:
        return _Digits("1" + "0" * (len(digits) - 1), place + 1)
    return _Digits(kept[:-1] + str(int(kept[-1]) + 1) + "0" * (len(digits) - len(kept)), place)
