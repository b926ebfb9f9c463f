from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from compactor.initiator import garbage_collection
from tests.support.patience import PATIENCE


def test_it_waits_and_is_as_it_was_afterwards() -> None:
    with garbage_collection.waiting():
        assert not gc.isenabled()
        with garbage_collection.waiting():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(KeyError), garbage_collection.waiting():
        raise KeyError
    assert gc.isenabled()


def test_it_waits_for_blocks_on_every_thread() -> None:
    """The one that began later ends later."""
    both_are_in, first_is_out = threading.Event(), threading.Event()
    seen: list[bool] = []

    def later() -> None:
        with garbage_collection.waiting():
            both_are_in.set()
            assert first_is_out.wait(PATIENCE)
            seen.append(gc.isenabled())

    with ThreadPoolExecutor(1) as thread:
        with garbage_collection.waiting():
            other = thread.submit(later)
            assert both_are_in.wait(PATIENCE)
        first_is_out.set()
        other.result(PATIENCE)
    assert seen == [False]
    assert gc.isenabled()
