"""The outcomes that a condition may have, as far as statistics tell: rows are left out only where it cannot be true.

Every answer is a set of outcomes (true, false, None for unknown) that holds at least those of the rows. NOT, AND and OR
combine sets by SQL's three-valued logic, so that nothing is pushed down wrongly below a NOT.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any as Anything
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from compactor.tables.filters.conditions import (
    All,
    Any,
    Compared,
    Condition,
    Constant,
    Kind,
    Matches,
    Missing,
    Not,
    OneOf,
    Pair,
    Settled,
    Value,
)

Outcome: TypeAlias = bool | None
Outcomes: TypeAlias = frozenset[Outcome]
_EITHER: Outcomes = frozenset({True, False})
_EVERY: Outcomes = frozenset({True, False, None})


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about a column's values in some rows.

    ``low`` and ``high`` bound them, None if unknown. ``contains`` is false for a value that surely is not among them.
    """

    low: Value | None = None
    high: Value | None = None
    has_null: bool = True
    has_value: bool = True
    contains: Callable[[Value], bool] | None = None


UNKNOWN = Facts()


def single(value: Value | None) -> Facts:
    """Returns the facts of a column with one value, or only NULL, such as a partition column."""
    return Facts(low=value, high=value, has_null=value is None, has_value=value is not None)


def may_match(condition: Condition, facts: Mapping[str, Facts]) -> bool:
    """Returns false if the condition is true for none of the rows that ``facts``, by column, are about."""
    return True in outcomes(condition, facts)


def outcomes(condition: Condition, facts: Mapping[str, Facts]) -> Outcomes:
    """Returns what the condition may come to in these rows; a column without facts may have any value."""
    match condition:
        case All(parts=parts):
            return reduce(_and, [outcomes(part, facts) for part in parts])
        case Any(parts=parts):
            return _negated(reduce(_and, [_negated(outcomes(part, facts)) for part in parts]))
        case Not(part=part):
            return _negated(outcomes(part, facts))
        case Constant(value=value):
            return frozenset({value})
        case Missing(column=column):
            known = facts.get(column.name, UNKNOWN)
            return frozenset({True} if known.has_null else ()) | frozenset({False} if known.has_value else ())
        case Pair():
            return _EVERY
        case Settled(column=column, value=value):
            return _with_null(facts.get(column.name, UNKNOWN), frozenset({value}))
        case Compared(column=column):
            known = facts.get(column.name, UNKNOWN)
            return _with_null(known, _of_test(condition, known))
        case Matches(column=column):
            known = facts.get(column.name, UNKNOWN)
            return _with_null(known, _of_like(condition, known))
        case OneOf(column=column):
            known = facts.get(column.name, UNKNOWN)
            return _with_null(known, _of_list(condition, known))


def _with_null(known: Facts, found: Outcomes) -> Outcomes:
    return (found if known.has_value else frozenset()) | (frozenset({None}) if known.has_null else frozenset())


def _negated(found: Outcomes) -> Outcomes:
    return frozenset(None if one is None else not one for one in found)


def _and(left: Outcomes, right: Outcomes) -> Outcomes:
    return frozenset(
        False if a is False or b is False else None if a is None or b is None else True for a in left for b in right
    )


def _of_test(test: Compared, known: Facts) -> Outcomes:
    """Returns the outcomes for values that are not NULL."""
    if test.operator in ("!=", ">=", ">"):
        opposite = {"!=": "=", ">=": "<", ">": "<="}[test.operator]
        found = _negated(_compared(opposite, test.value, known))
    else:
        found = _compared(test.operator, test.value, known)
    if test.column.kind is Kind.FLOAT:  # NaN is in no statistics, and compares as false
        found |= {test.operator == "!="}
    return found


def _compared(operator: str, value: Value, known: Facts) -> Outcomes:
    low, high = known.low, known.high
    if operator == "=" and known.contains is not None and not known.contains(value):
        return frozenset({False})
    if low is None or high is None:
        return _EITHER
    least: Anything
    most: Anything
    least, most = low, high
    if operator == "=":
        true, false = least <= value <= most, not (least == value == most)
    elif operator == "<":
        true, false = least < value, most >= value
    else:
        true, false = least <= value, most > value
    return frozenset(outcome for outcome, possible in ((True, true), (False, false)) if possible)


def _of_list(condition: OneOf, known: Facts) -> Outcomes:
    falsehood: Outcomes = frozenset({None if condition.or_null else False})
    if condition.column.kind is Kind.FLOAT:
        tests = (Compared(column=condition.column, operator="=", value=value) for value in condition.values)
        return frozenset(one for test in tests for one in _of_test(test, known) if one) | falsehood
    if not any(known.contains is None or known.contains(value) for value in _within(condition.values, known)):
        return falsehood
    is_certain = known.low is not None and known.low == known.high
    return frozenset({True}) if is_certain else falsehood | {True}


def _within(values: Sequence[Value], known: Facts) -> Sequence[Value]:
    """Returns those of the sorted ``values`` that no bounds leave out: a list may be long, and each row group asks."""
    low: Anything = known.low
    high: Anything = known.high
    if low is None or high is None:
        return values
    return values[bisect_left(values, low) : bisect_right(values, high)]


def _of_like(condition: Matches, known: Facts) -> Outcomes:
    low, high, prefix = known.low, known.high, condition.prefix
    if not isinstance(low, bytes) or not isinstance(high, bytes):
        return _EITHER
    if low == high:
        text = pa.array([low.decode("utf-8", "replace")])
        return frozenset({bool(pc.match_substring_regex(text, condition.expression)[0].as_py())})
    overlaps = low[: len(prefix)] <= prefix <= high
    return _EITHER if overlaps else frozenset({False})
