"""Filters as Hypothesis makes them, and a slow model of what they mean: SQL's three-valued logic, row by row."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Truth = bool | None
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Filter:
    """A filter's ``text``, and its ``meaning`` for a row."""

    text: str
    meaning: Callable[[Mapping[str, Any]], Truth]


def _literals(name: str) -> st.SearchStrategy[tuple[str, Any]]:
    """Returns a literal for a column: its text and its value."""
    numbers = st.one_of(
        st.integers(-5, 700).map(lambda n: (str(n), Decimal(n))),
        st.decimals(-5, 700, places=2).map(lambda n: (str(n), n)),
        st.sampled_from([("1e30", Decimal("1e30")), ("-1e30", Decimal("-1e30")), ("1e-9", Decimal("1e-9"))]),
    )
    texts = st.one_of(
        st.integers(0, 320).map(lambda n: f"key {n:04d}"), st.sampled_from(["", "ab", "ab ", "b", "it's", "ä"])
    )
    quoted = texts.map(lambda text: ("'" + text.replace("'", "''") + "'", text))
    days = st.dates(date(2025, 12, 30), date(2026, 3, 10))
    times = st.datetimes(datetime(2025, 12, 31), datetime(2026, 1, 8))
    return {
        "i": numbers,
        "n": numbers,
        "f": numbers,
        "s": quoted,
        "c": quoted,
        "d": days.map(lambda day: (f"'{day}'", day)),
        "t": times.map(lambda time: (f"'{time}'", time)),
        "b": st.sampled_from([("TRUE", True), ("FALSE", False)]),
    }[name]


def _comparable(name: str, value: Any) -> Any:
    return value.rstrip(" ") if name == "c" else value


def _compare(name: str, sign: str, value: Any, wanted: Any) -> Truth:
    if value is None or wanted is None:
        return None
    if name == "f":
        if math.isnan(value):
            return sign in ("!=", "<>")
        wanted = float(wanted)
    return COMPARE[sign](_comparable(name, value), _comparable(name, wanted))


def _and(parts: list[Truth]) -> Truth:
    return False if False in parts else None if None in parts else True


def negated(value: Truth) -> Truth:
    return None if value is None else not value


def _or(parts: list[Truth]) -> Truth:
    return negated(_and([negated(part) for part in parts]))


@st.composite
def _predicates(draw: st.DrawFn) -> Filter:
    name = draw(st.sampled_from("infscdtb"))
    kind = draw(st.sampled_from(["compare", "compare", "flipped", "in", "between", "null", "like", "pair"]))
    text, value = draw(_literals(name))
    sign = draw(st.sampled_from(list(COMPARE)))
    negates = draw(st.booleans())
    word = "NOT " if negates else ""

    def may_negate(found: Truth) -> Truth:
        return negated(found) if negates else found

    if kind == "flipped":
        other = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
        return Filter(f"{text} {other} {name}", lambda row: _compare(name, sign, row[name], value))
    if kind == "in":
        several = draw(st.lists(st.one_of(_literals(name), st.just(("NULL", None))), min_size=1, max_size=4))
        return Filter(
            f"{name} {word}IN ({', '.join(one for one, _ in several)})",
            lambda row: may_negate(_or([_compare(name, "=", row[name], one) for _, one in several])),
        )
    if kind == "between":
        end, last = draw(_literals(name))
        return Filter(
            f"{name} {word}BETWEEN {text} AND {end}",
            lambda row: may_negate(
                _and([_compare(name, ">=", row[name], value), _compare(name, "<=", row[name], last)])
            ),
        )
    if kind == "null":
        name = draw(st.sampled_from([name, "l"]))
        return Filter(f"{name} IS {word}NULL", lambda row: (row[name] is None) != negates)
    if kind == "like" and name in "sc":
        plain = ["key 00%", "%1", "_b", "ab%", "key _0__", "%", "", "key 0010", r"\%", "ab"]
        pattern = draw(st.sampled_from([*plain, r"\a%", r"%\b", r"%\b%", r"a\_", "a\\"]))
        return Filter(f"{name} {word}LIKE '{pattern}'", lambda row: may_negate(_like(name, row[name], pattern)))
    if kind == "pair":
        first, second = draw(st.sampled_from([("i", "n"), ("s", "c"), ("d", "d"), ("t", "t"), ("n", "n"), ("b", "b")]))
        return Filter(f"{first} {sign} {second}", lambda row: _pair(first, sign, second, row))
    return Filter(f"{name} {sign} {text}", lambda row: _compare(name, sign, row[name], value))


def _pair(first: str, sign: str, second: str, row: Mapping[str, Any]) -> Truth:
    left, right = row[first], row[second]
    if left is None or right is None:
        return None
    return COMPARE[sign](_comparable(first, left), _comparable(second, right))


def _like(name: str, value: str | None, pattern: str) -> Truth:
    if value is None:
        return None
    parts = re.findall(r"\\[%_]|.", pattern)
    expression = "".join({"%": ".*", "_": "."}.get(part, re.escape(part[-1])) for part in parts)
    return re.fullmatch(expression, _comparable(name, value), re.DOTALL) is not None


def filters() -> st.SearchStrategy[Filter]:
    """Returns filters over the columns of ``tests.support.scanned``."""
    return st.recursive(
        _predicates(),
        lambda below: st.one_of(
            below.map(lambda one: Filter(f"NOT ({one.text})", lambda row: negated(one.meaning(row)))),
            st.lists(below, min_size=2, max_size=3).map(
                lambda parts: Filter(
                    " AND ".join(f"({part.text})" for part in parts),
                    lambda row: _and([part.meaning(row) for part in parts]),
                )
            ),
            st.lists(below, min_size=2, max_size=3).map(
                lambda parts: Filter(
                    " or ".join(f"({part.text})" for part in parts),
                    lambda row: _or([part.meaning(row) for part in parts]),
                )
            ),
        ),
        max_leaves=6,
    )
