"""How long to wait before a lock that was not granted is looked at again (Hive's ``DbLockManager.backoff``)."""

from __future__ import annotations

FIRST_WAIT_MS = 100
LEAST_CAP_MS = 15_000  #: Hive's floor of the longest wait, whatever ``hive.lock.sleep.between.retries`` says


def waiting_times_within(total_ms: int, longest_ms: int) -> tuple[int, ...]:
    """Milliseconds before each try: 100, doubling up to ``longest_ms`` (``hive.lock.sleep.between.retries``).

    As many as fit into ``total_ms`` (``compactor.lock.wait``); the last one is cut to fit.
    """
    cap = max(LEAST_CAP_MS, longest_ms)
    times: list[int] = []
    wait, left = FIRST_WAIT_MS, total_ms
    while left > 0:
        times.append(min(wait, left))
        left -= times[-1]
        wait = min(wait * 2, cap)
    return tuple(times)
