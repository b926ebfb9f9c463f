"""Finds which outcomes statistics allow for a condition; rows are skipped only if it cannot be true.

Every answer is a set of outcomes (true, false, or None for unknown) that includes all outcomes of the rows. NOT, AND and OR
combine sets by SQL's three-valued logic, so that a condition below a NOT is never pruned wrongly.
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
    Matches,
    Missing,
    Negation,
    OneOf,
    Pair,
    Settled,
    Value,
    ValueKind,
)

Outcome: TypeAlias = bool | None
Outcomes: TypeAlias = frozenset[Outcome]
_EITHER: Outcomes = frozenset({True, False})
_EVERY: Outcomes = frozenset({True, False, None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnFacts:
    """Facts about a column's values in some rows.

    ``low`` and ``high`` bound them; None if unknown. ``contains`` returns false for a value that is surely not among them.
    """

    low: Value | None = None
    high: Value | None = None
    has_null: bool = True
    has_value: bool = True
    contains: Callable[[Value], bool] | None = None


UNKNOWN = ColumnFacts()


def single_value_facts(value: Value | None) -> ColumnFacts:
    """Returns the facts of a column with a single value or only NULL, such as a partition column."""
    return ColumnFacts(low=value, high=value, has_null=value is None, has_value=value is not None)


def may_match(condition: Condition, facts: Mapping[str, ColumnFacts]) -> bool:
    """Returns false if the condition is surely true for none of the rows.

    ``facts`` describe the rows by column.
    """
    return True in find_outcomes(condition, facts)


def find_outcomes(condition: Condition, facts: Mapping[str, ColumnFacts]) -> Outcomes:
    """Returns the possible outcomes of the condition in these rows.

    A column without facts may have any value.
    """
    match condition:
        case All(parts=parts):
            return reduce(_combine, [find_outcomes(part, facts) for part in parts])
        case Any(parts=parts):
            return _negate(reduce(_combine, [_negate(find_outcomes(part, facts)) for part in parts]))
        case Negation(part=part):
            return _negate(find_outcomes(part, facts))
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
            return _with_null(known, _test_outcomes(condition, known))
        case Matches(column=column):
            known = facts.get(column.name, UNKNOWN)
            return _with_null(known, _like_outcomes(condition, known))
        case OneOf(column=column):
            known = facts.get(column.name, UNKNOWN)
            return _with_null(known, _list_outcomes(condition, known))


def _with_null(known: ColumnFacts, possible: Outcomes) -> Outcomes:
    return (possible if known.has_value else frozenset()) | (frozenset({None}) if known.has_null else frozenset())


def _negate(possible: Outcomes) -> Outcomes:
    return frozenset(None if outcome is None else not outcome for outcome in possible)


def _combine(left: Outcomes, right: Outcomes) -> Outcomes:
    return frozenset(
        False if a is False or b is False else None if a is None or b is None else True for a in left for b in right
    )


def _test_outcomes(test: Compared, known: ColumnFacts) -> Outcomes:
    """Returns the outcomes for values that are not NULL."""
    if test.operator in ("!=", ">=", ">"):
        opposite = {"!=": "=", ">=": "<", ">": "<="}[test.operator]
        possible = _negate(_comparison_outcomes(opposite, test.value, known))
    else:
        possible = _comparison_outcomes(test.operator, test.value, known)
    if test.column.kind is ValueKind.FLOAT:  # statistics do not cover NaN, which compares as false
        possible |= {test.operator == "!="}
    return possible


def _comparison_outcomes(operator: str, value: Value, known: ColumnFacts) -> Outcomes:
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


def _list_outcomes(condition: OneOf, known: ColumnFacts) -> Outcomes:
    falsehood: Outcomes = frozenset({None if condition.or_null else False})
    if condition.column.kind is ValueKind.FLOAT:
        tests = (Compared(column=condition.column, operator="=", value=value) for value in condition.values)
        return frozenset(outcome for test in tests for outcome in _test_outcomes(test, known) if outcome) | falsehood
    if not any(known.contains is None or known.contains(value) for value in _within(condition.values, known)):
        return falsehood
    is_certain = known.low is not None and known.low == known.high
    return frozenset({True}) if is_certain else falsehood | {True}


def _within(values: Sequence[Value], known: ColumnFacts) -> Sequence[Value]:
    """Returns the sorted ``values`` within the bounds; a list may be long, and each row group checks it."""
    low: Anything = known.low
    high: Anything = known.high
    if low is None or high is None:
        return values
    return values[bisect_left(values, low) : bisect_right(values, high)]


def _like_outcomes(condition: Matches, known: ColumnFacts) -> Outcomes:
    low, high, prefix = known.low, known.high, condition.prefix
    if not isinstance(low, bytes) or not isinstance(high, bytes):
        return _EITHER
    if low == high:
        text = pa.array([low.decode("utf-8", "replace")])
        return frozenset({bool(pc.match_substring_regex(text, condition.expression)[0].as_py())})
    overlaps = low[: len(prefix)] <= prefix <= high
    return _EITHER if overlaps else frozenset({False})
