from __future__ import annotations

import os
import signal
import threading

import pytest

from compactor.base.stop_signals import catch_stop_signals
from tests.support.patience import PATIENCE


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_once_and_then_has_its_usual_effect(kind: signal.Signals) -> None:
    before = signal.getsignal(kind)
    with catch_stop_signals() as stop:
        assert not stop.is_requested
        os.kill(os.getpid(), kind)
        assert stop.wait(PATIENCE)
        assert signal.getsignal(kind) is before
    assert signal.getsignal(kind) is before


def test_outside_the_main_thread_no_signal_is_handled() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def inside() -> None:
        with catch_stop_signals() as stop:
            seen.extend((stop.is_requested, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [False, before]
