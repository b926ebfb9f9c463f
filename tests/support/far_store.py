"""A store that counts as far, so that what is asked of it is asked side by side, without waiting for anything."""

from __future__ import annotations

import itertools
import threading

import pytest

from compactor.orc.io import look_ahead
from tests.support.patience import PATIENCE


def count_as_far(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every step that is measured count as one that has waited."""
    monkeypatch.setattr(look_ahead, "WAIT_S", -1.0)
    monkeypatch.setattr(look_ahead, "WAIT_RATIO", -1e9)


class OthersMeet:
    """Lets all but the first of ``count`` steps wait for each other: the first one shows that the store is far."""

    def __init__(self, count: int) -> None:
        self._numbers = itertools.count()
        self._barrier = threading.Barrier(count - 1)

    def wait(self) -> None:
        if next(self._numbers) > 0:
            self._barrier.wait(PATIENCE)
