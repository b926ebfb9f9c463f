"""Bystanders may fail or hang without effect on a pass (PROTOCOL 11.14)."""

from __future__ import annotations

import errno
import logging
import threading

import pytest

from compactor.site.best_effort import beside


def test_the_answer_comes_back() -> None:
    assert beside("a figure", lambda: 7) == 7


def test_a_failure_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> int:
        raise OSError(errno.EIO, "Input/output error")

    assert beside("a figure", fail) is None
    assert "a figure failed, which changes nothing else: [Errno 5] Input/output error" in caplog.text


def test_who_hangs_is_left_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    """As on a file system that is away."""
    caplog.set_level(logging.WARNING)
    goes_on = threading.Event()
    assert beside("a figure", goes_on.wait, patience_s=0.01) is None
    goes_on.set()
    assert "a figure takes longer than 0 s and is left to itself" in caplog.text
