from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.tables.filters.binding import bind
from compactor.tables.filters.outcomes import ColumnFacts, find_outcomes, may_match, single_value_facts

SCHEMA = pa.schema({"i": pa.int64(), "s": pa.string(), "f": pa.float64()})
FIVE_TO_NINE = {"i": ColumnFacts(low=5, high=9, has_null=False)}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("i = 5", {True, False}),
        ("i = 4", {False}),
        ("i < 5", {False}),
        ("i <= 9", {True}),
        ("i > 9", {False}),
        ("i >= 5", {True}),
        ("i != 4", {True}),
        ("not i < 5", {True}),
        ("i in (1, 20)", {False}),
        ("i not in (1, NULL)", {None}),
        ("i is null", {False}),
        ("i < 5 or i > 9", {False}),
        ("i >= 5 and i <= 9", {True}),
        ("i < 5 or s = 'x'", {True, False, None}),
    ],
)
def test_bounds_decide(text: str, wanted: set[bool | None]) -> None:
    assert find_outcomes(bind(text, SCHEMA), FIVE_TO_NINE) == wanted


def test_a_single_value_decides_everything() -> None:
    facts = {"s": single_value_facts(b"abc"), "i": single_value_facts(None)}
    assert find_outcomes(bind("s = 'abc' and s like '_b%'", SCHEMA), facts) == {True}
    assert find_outcomes(bind("s like 'b%'", SCHEMA), facts) == {False}
    assert find_outcomes(bind("i = 1", SCHEMA), facts) == {None}
    assert not may_match(bind("not i = 1", SCHEMA), facts)


def test_nan_is_in_no_bounds() -> None:
    facts = {"f": ColumnFacts(low=1.0, high=2.0, has_null=False)}
    assert find_outcomes(bind("f < 5", SCHEMA), facts) == {True, False}
    assert may_match(bind("not f < 5", SCHEMA), facts)
    assert not may_match(bind("f > 5", SCHEMA), facts)


def test_a_bloom_filter_decides_what_is_equal() -> None:
    facts = {"i": ColumnFacts(has_null=False, contains=lambda value: value == 3)}
    assert find_outcomes(bind("i = 4", SCHEMA), facts) == {False}
    assert find_outcomes(bind("i != 4", SCHEMA), facts) == {True}
    assert find_outcomes(bind("i in (4, 5)", SCHEMA), facts) == {False}
    assert find_outcomes(bind("i = 3", SCHEMA), facts) == {True, False}
    assert find_outcomes(bind("i < 4", SCHEMA), facts) == {True, False}


@given(
    values=st.lists(st.integers(-9, 9), min_size=1, max_size=12),
    there=st.sets(st.integers(-9, 9)),
    is_bounded=st.booleans(),
    is_listed=st.booleans(),
    has_null=st.booleans(),
)
def test_a_list_may_come_to_whatever_a_value_comes_to(
    values: list[int], there: set[int], is_bounded: bool, is_listed: bool, has_null: bool
) -> None:
    """Only the values within the bounds are looked at, and none that is there is missed."""
    is_bounded = is_bounded and bool(there)
    known = ColumnFacts(
        low=min(there) if is_bounded else None,
        high=max(there) if is_bounded else None,
        has_null=has_null,
        has_value=bool(there),
        contains=there.__contains__ if is_listed else None,
    )
    real = {one in values for one in there} | ({None} if has_null else set())
    text = f"i IN ({', '.join(map(str, values))})"
    assert real <= find_outcomes(bind(text, SCHEMA), {"i": known})
    assert {None if one is None else not one for one in real} <= find_outcomes(
        bind(f"NOT {text}", SCHEMA), {"i": known}
    )


def test_a_long_list_is_looked_at_within_the_bounds_alone() -> None:
    asked: list[object] = []

    def contains(value: object) -> bool:
        asked.append(value)
        return False

    condition = bind(f"i IN ({', '.join(map(str, range(0, 30_000, 3)))})", SCHEMA)
    assert not may_match(condition, {"i": ColumnFacts(low=10, high=20, contains=contains)})
    assert asked == [12, 15, 18]
