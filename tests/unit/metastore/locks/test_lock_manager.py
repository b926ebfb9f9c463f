"""Waiting for a lock."""

from __future__ import annotations

from itertools import pairwise

import pytest

from compactor.metastore.locks.lock_manager import waiting_times_within


def test_waits_double_up_to_a_minute() -> None:
    """The waits are Hive's: 100 tries from 100 ms to 60 s take 91 minutes and 42.3 seconds in all."""
    times = waiting_times_within((91 * 60 + 42) * 1000 + 300, 60_000)
    assert len(times) == 100
    assert times[:4] == (100, 200, 400, 800)
    assert times[9:12] == (51_200, 60_000, 60_000)


def test_cap_is_at_least_15_seconds() -> None:
    assert max(waiting_times_within(600_000, 1)) == 15_000


@pytest.mark.parametrize("total", [1, 99, 100, 250, 60_000, 3_600_000])
def test_within_a_time(total: int) -> None:
    times = waiting_times_within(total, 60_000)
    assert sum(times) == total
    assert all(later <= 2 * earlier for earlier, later in pairwise(times))


def test_within_no_time() -> None:
    assert waiting_times_within(0, 60_000) == ()
