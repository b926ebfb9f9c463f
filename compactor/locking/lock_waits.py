"""The waits between checks of a lock that was not granted (Hive's ``DbLockManager.backoff``)."""

from __future__ import annotations

FIRST_WAIT_MS = 100
LEAST_CAP_MS = 15_000  #: Hive's minimum for the longest wait, whatever ``hive.lock.sleep.between.retries`` says


def waiting_times_within(total_ms: int, longest_ms: int) -> tuple[int, ...]:
    """Returns the milliseconds before each try: 100, doubled up to ``longest_ms``.

    They add up to ``total_ms``; the last one is shortened to fit.

    Args:
        total_ms: ``compactor.lock.wait``.
        longest_ms: ``hive.lock.sleep.between.retries``.
    """
    cap = max(LEAST_CAP_MS, longest_ms)
    times: list[int] = []
    wait, remaining = FIRST_WAIT_MS, total_ms
    while remaining > 0:
        times.append(min(wait, remaining))
        remaining -= times[-1]
        wait = min(wait * 2, cap)
    return tuple(times)
