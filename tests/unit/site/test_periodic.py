from __future__ import annotations

import threading

import pytest

from compactor.site.periodic import Periodic
from tests.support.patience import PATIENCE


class Counting(Periodic):
    def __init__(self, period_s: float, most: int) -> None:
        super().__init__("counting", period_s)
        self.acted = 0
        self.done = threading.Event()
        self._most = most

    def _act(self) -> bool:
        self.acted += 1
        if self.acted == self._most:
            self.done.set()
        return self.acted < self._most


def test_it_acts_until_it_returns_false() -> None:
    with Counting(0.001, most=3) as counting:
        assert counting.done.wait(PATIENCE)
        counting._thread.join(PATIENCE)
        assert not counting._thread.is_alive()
    assert counting.acted == 3


@pytest.mark.parametrize("fails", [False, True])
def test_it_ends_with_the_block_and_does_not_act_before_its_time(fails: bool) -> None:
    counting = Counting(3600, most=2)
    try:
        with counting:
            assert counting._thread.is_alive()
            if fails:
                raise ValueError
    except ValueError:
        pass
    assert not counting._thread.is_alive()
    assert counting.acted == 0
