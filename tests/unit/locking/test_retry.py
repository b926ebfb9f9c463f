"""Waiting for a lock."""

from __future__ import annotations

import pytest

from compactor.locking.retry import waiting_times, waiting_times_within


def test_hives_defaults_wait_91_minutes() -> None:
    """100 tries from 100 ms doubling to 60 s: 91 minutes and 42.3 seconds in all."""
    times = waiting_times()
    assert len(times) == 100
    assert times[:4] == (100, 200, 400, 800)
    assert times[9:12] == (51_200, 60_000, 60_000)
    assert sum(times) == (91 * 60 + 42) * 1000 + 300


def test_cap_is_at_least_15_seconds() -> None:
    assert max(waiting_times(retries=50, longest_ms=1)) == 15_000


def test_no_retries() -> None:
    assert waiting_times(retries=0) == ()


@pytest.mark.parametrize("total", [1, 99, 100, 250, 60_000, 3_600_000])
def test_within_a_time(total: int) -> None:
    times = waiting_times_within(total)
    assert sum(times) == total
    assert times[:-1] == waiting_times()[: len(times) - 1]


def test_within_no_time() -> None:
    assert waiting_times_within(0) == ()
