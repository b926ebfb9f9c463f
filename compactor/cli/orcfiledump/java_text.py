"""Decimals, shares and texts as Java prints them."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

from compactor.orc.format.hive_types import valid_name

_DIGITS = 38  #: of a decimal
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_LONGEST = 1000  #: characters of a number; more could take much time
_EXACT = Context(prec=2 * _LONGEST)
_QUOTED = re.compile(r"`((?:[^`]|``)*)`(?!`)")
_SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
#: What Gson writes for characters that JSON, or JavaScript, does not allow in a text.
_ESCAPES = {number: _SHORT.get(number, f"\\u{number:04x}") for number in (*range(32), 34, 92, 0x2028, 0x2029)}


def rounded(value: float, places: int) -> str:
    """Returns what a ``DecimalFormat`` such as ``##.##`` prints: at most ``places`` digits after the point, half to even."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞" if value > 0 else "-∞"
    found = Decimal(value).quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    text = format(found, "f").rstrip("0").rstrip(".")
    return "-0" if value < 0 and not found else text


def decimal_text(text: str) -> str | None:
    """Returns a ``HiveDecimal``, which has 38 digits at most, the last one rounded half up, and no zeros at its end; None if
    ``text`` is none."""
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
    found = format(number, "f")
    return found.rstrip("0").rstrip(".") if "." in found else found


def quoted(text: str) -> str:
    """Returns ``text`` as a JSON text of Gson, which escapes no more than it must."""
    return f'"{text.translate(_ESCAPES)}"'


def field_name(name: str) -> str:
    """Returns a field's name as Java's reader understands the one in a file: one that begins with a backtick is taken for
    quoted, and the name ends at the next single backtick."""
    name = valid_name(name)
    found = _QUOTED.match(name if name.startswith("`") else f"`{name}`")
    return name if found is None else found[1].replace("``", "`")


def text_of(data: bytes) -> str:
    """Returns UTF-8 as text; U+FFFD stands for what is none."""
    return data.decode("utf-8", "replace")
