"""Long work reports its progress, and not too often."""

from __future__ import annotations

import pytest

from compactor.rewrite.run.progress import EVERY_S, JobProgress


def test_a_line_is_logged_when_due(caplog: pytest.LogCaptureFixture) -> None:
    now = 100.0
    caplog.set_level("INFO", "compactor.rewrite.run.progress")
    progress = JobProgress("warehouse/t", lambda: now)
    lines_and_pauses = []
    for step in (EVERY_S / 2, EVERY_S / 2, 1, EVERY_S + 1):
        now += step
        progress.report(done=3, under_way=2, waiting=4)
        lines_and_pauses.append((len(caplog.messages), progress.pause_s))
    assert lines_and_pauses == [(0, EVERY_S / 2), (1, EVERY_S), (1, EVERY_S - 1), (2, EVERY_S)]
    assert caplog.messages == [
        "warehouse/t: 3 of 9 tasks done, 2 under way, after 10 s",
        "warehouse/t: 3 of 9 tasks done, 2 under way, after 22 s",
    ]
