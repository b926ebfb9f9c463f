from __future__ import annotations

import os
import signal
import threading

import pytest

from compactor.cli.stop_signals import Stop, repeat, stopping
from compactor.errors import DatabaseUnavailable
from tests.support.patience import PATIENCE


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_once_and_then_has_its_usual_effect(kind: signal.Signals) -> None:
    before = signal.getsignal(kind)
    with stopping() as stop:
        assert not stop.asked
        os.kill(os.getpid(), kind)
        assert stop.wait(PATIENCE)
        assert signal.getsignal(kind) is before
    assert signal.getsignal(kind) is before


def test_outside_the_main_thread_no_signal_is_handled() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def inside() -> None:
        with stopping() as stop:
            seen.extend((stop.asked, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [False, before]


def test_passes_follow_each_other_until_asked_to_stop() -> None:
    stop, passes = Stop(), []

    def one_pass() -> bool:
        passes.append(len(passes))
        if len(passes) == 3:
            stop.ask()
        return len(passes) == 3

    assert repeat(stop, 0.001, one_pass) is True
    assert passes == [0, 1, 2]


def test_a_failed_pass_is_reported_and_the_next_one_follows(capsys: pytest.CaptureFixture[str]) -> None:
    stop, passes = Stop(), []

    def one_pass() -> bool:
        passes.append(1)
        if len(passes) == 1:
            raise DatabaseUnavailable("database sqlite:///x: away")
        stop.ask()
        return True

    assert repeat(stop, 0.001, one_pass) is True
    assert "database sqlite:///x: away" in capsys.readouterr().err


def test_an_error_that_is_a_bug_ends_the_loop() -> None:
    def one_pass() -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        repeat(Stop(), 0.001, one_pass)
