"""The time that a compaction under way still takes: by its own pace, or by what was expected of it. Pure."""

from __future__ import annotations

from compactor.state.entry_progress import Progress

_ENOUGH = 0.05  #: the share of the bytes from which on the pace says more than what was expected


def time_left(progress: Progress | None, *, now: int, began: int | None, expected_ms: int | None) -> int | None:
    """Returns the milliseconds that are left at ``now`` (epoch ms) of a run that began at ``began``; None if nothing says
    so.

    It is never less than nothing: what takes longer than its own pace or the expectation says is about to end.
    """
    if progress is not None and progress.bytes_done >= _ENOUGH * progress.bytes > 0:
        pace = progress.spent_ms / progress.bytes_done
        return max(0, round((progress.bytes - progress.bytes_done) * pace) - max(0, now - progress.at))
    if expected_ms is None or began is None:
        return None
    return max(0, expected_ms - max(0, now - began))
