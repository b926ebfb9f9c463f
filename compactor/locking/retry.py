"""How long to wait before a lock that was not granted is looked at again (Hive's ``DbLockManager.backoff``)."""

from __future__ import annotations

FIRST_WAIT_MS = 100
LEAST_CAP_MS = 15_000  #: Hive's floor of the longest wait, whatever ``hive.lock.sleep.between.retries`` says


def waiting_times(*, retries: int = 100, longest_ms: int = 60_000) -> tuple[int, ...]:
    """Milliseconds before each of ``retries`` tries: 100, doubling, never above ``longest_ms``.

    ``retries`` is ``hive.lock.numretries``, ``longest_ms`` is ``hive.lock.sleep.between.retries``.
    """
    cap = max(LEAST_CAP_MS, longest_ms)
    times: list[int] = []
    wait = FIRST_WAIT_MS
    for _ in range(retries):
        times.append(min(wait, cap))
        wait = min(wait * 2, cap)
    return tuple(times)


def waiting_times_within(total_ms: int, *, longest_ms: int = 60_000) -> tuple[int, ...]:
    """The same times, as many as fit into ``total_ms`` (``compactor.lock.wait``); the last one is cut to fit."""
    cap = max(LEAST_CAP_MS, longest_ms)
    times: list[int] = []
    wait, left = FIRST_WAIT_MS, total_ms
    while left > 0:
        times.append(min(wait, left))
        left -= times[-1]
        wait = min(wait * 2, cap)
    return tuple(times)
