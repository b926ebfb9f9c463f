"""Each anomaly of rows is found in a short history that has it, and none in a similar history that does not."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.support.history.operations import Kind, Operation, Outcome
from tests.support.history.table_rows import judged, overlapping

BATCH = 3
_numbers = itertools.count(1)


def op(
    name: str, began: int, ended: int, value: Any = None, *, outcome: Outcome = Outcome.OK, **given: Any
) -> Operation:
    return Operation(
        process="p",
        number=next(_numbers),
        name=name,
        arguments=given,
        began=began,
        ended=None if outcome is Outcome.UNKNOWN else ended,
        outcome=outcome,
        value=value,
    )


def reads(began: int, ended: int, *, again: dict[str, Any] | None = None, **tables: Any) -> Operation:
    first = {"t": {}, "u": {}, "c": [0], "k": {}, "o": {}} | tables
    return op("read", began, ended, [first, first if again is None else first | again])


def both(token: str, count: int = BATCH) -> dict[str, Any]:
    return {"t": {token: count}, "u": {token: count}}


APPENDED = op("append", 10, 20, BATCH, token="x")
NEVER = op("append", 10, 20, token="x", outcome=Outcome.REFUSED)
PERHAPS = op("append", 10, 20, token="x", outcome=Outcome.UNKNOWN)


@pytest.mark.parametrize(
    "history",
    [
        [APPENDED, reads(30, 40, **both("x"))],
        [APPENDED, reads(15, 40)],
        [NEVER, reads(30, 40)],
        [PERHAPS, reads(30, 40), reads(50, 60, **both("x"))],
        [APPENDED, op("remove", 30, 40, [BATCH, BATCH], token="x"), reads(35, 60), reads(50, 60)],
        [op("count_up", 10, 20, 1), reads(30, 40, c=[1])],
        [op("count_up", 10, 20, outcome=Outcome.UNKNOWN), reads(30, 40, c=[1]), reads(50, 60, c=[1])],
        [op("put", 10, 20, [0, 1], key="a"), reads(30, 40, k={"a": 1})],
        [op("replace", 10, 20, BATCH, token="x"), reads(30, 40, o={"x": BATCH})],
        [op("replace", 10, 20, token="x"), op("replace", 15, 25, token="y"), reads(30, 40, o={"x": BATCH})],
        [op("hidden", 90, 91, [])],
    ],
)
def test_what_may_be_is_no_anomaly(history: list[Operation]) -> None:
    assert list(judged(history, BATCH)) == []


@pytest.mark.parametrize(
    ("kind", "history"),
    [
        (Kind.MISSES_COMMITTED, [APPENDED, reads(30, 40)]),
        (Kind.SEES_UNCOMMITTED, [NEVER, reads(30, 40, **both("x"))]),
        (Kind.SEES_UNCOMMITTED, [APPENDED, reads(1, 5, **both("x"))]),
        (Kind.NOT_ONE_INSTANT, [APPENDED, reads(30, 40, t={"x": BATCH})]),
        (Kind.NOT_ONE_INSTANT, [APPENDED, reads(30, 40, **both("x", 2 * BATCH))]),
        (Kind.WRONG_READ, [reads(30, 40, **both("y"))]),
        (Kind.NOT_REPEATABLE, [APPENDED, reads(15, 40, again=both("x"))]),
        (Kind.MISSES_COMMITTED, [APPENDED, op("remove", 21, 25, [3, 3], token="x"), reads(30, 40, **both("x"))]),
        (Kind.NOT_ONE_INSTANT, [APPENDED, op("remove", 21, 25, [3, 0], token="x")]),
        (Kind.LOST_UPDATE, [op("count_up", 10, 20, 1), op("count_up", 11, 21, 1)]),
        (Kind.LOST_UPDATE, [op("count_up", 10, 20, 1), op("count_up", 21, 22, 2), reads(30, 40, c=[1])]),
        (Kind.SEES_UNCOMMITTED, [op("count_up", 10, 20, outcome=Outcome.REFUSED), reads(30, 40, c=[1])]),
        (Kind.WRONG_READ, [reads(30, 40, c=[0, 1])]),
        (Kind.LOST_UPDATE, [op("put", 10, 20, [0, 1], key="a"), reads(30, 40, k={"a": 2})]),
        (Kind.MISSES_COMMITTED, [op("put", 10, 20, [0, 1], key="a"), reads(30, 40)]),
        (Kind.SEES_UNCOMMITTED, [reads(30, 40, k={"a": 1})]),
        (Kind.MISSES_COMMITTED, [op("replace", 10, 20, token="x"), reads(30, 40)]),
        (Kind.NOT_ONE_INSTANT, [op("replace", 10, 20, token="x"), reads(30, 40, o={"x": 1})]),
        (Kind.SEES_UNCOMMITTED, [reads(30, 40, o={"x": BATCH})]),
        (
            Kind.MISSES_COMMITTED,
            [op("replace", 10, 20, token="x"), op("replace", 21, 25, token="y"), reads(30, 40, o={"x": BATCH})],
        ),
        (Kind.WRONG_READ, [op("hidden", 90, 91, ["t/.compactor_w5_ab"])]),
    ],
)
def test_each_anomaly_is_found(kind: Kind, history: list[Operation]) -> None:
    assert {anomaly.kind for anomaly in judged(history, BATCH)} == {kind}


def test_writes_at_the_same_time_are_counted() -> None:
    assert overlapping([APPENDED, op("put", 15, 25, key="a"), op("put", 30, 40, key="a"), reads(1, 50)]) == 1
