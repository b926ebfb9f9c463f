from __future__ import annotations

import pytest

from compactor.insight.time_left import time_left
from compactor.state.entry_progress import Progress


def after(bytes_done: int, spent_ms: int, size: int = 1000, at: int = 50_000) -> Progress:
    return Progress(entry_id=1, units=4, units_done=0, bytes=size, bytes_done=bytes_done, spent_ms=spent_ms, at=at)


@pytest.mark.parametrize(
    ("progress", "expected_ms", "wanted"),
    [
        (after(500, 10_000), None, 10_000),
        (after(500, 10_000, at=47_000), None, 7_000),  # told three seconds ago
        (after(500, 10_000, at=10_000), None, 0),  # late: it is about to end
        (after(1000, 10_000), 99_000, 0),
        (after(500, 10_000), 99_000, 10_000),  # the pace says more than the expectation
        (after(49, 10_000), 60_000, 20_000),  # not yet
        (after(49, 10_000), None, None),
        (after(0, 10_000, size=0), 60_000, 20_000),
        (None, 60_000, 20_000),
        (None, 30_000, 0),
        (None, None, None),
    ],
)
def test_the_pace_counts_once_there_is_one(
    progress: Progress | None, expected_ms: int | None, wanted: int | None
) -> None:
    assert time_left(progress, now=50_000, began=10_000, expected_ms=expected_ms) == wanted


def test_nothing_is_said_of_what_has_no_begin() -> None:
    assert time_left(None, now=50_000, began=None, expected_ms=60_000) is None
