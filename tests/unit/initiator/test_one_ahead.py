"""Things that are made while the one before is in use."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from compactor.initiator.one_ahead import one_ahead
from tests.support.patience import PATIENCE


def test_each_is_made_while_the_one_before_is_in_use() -> None:
    """An observer in the middle of the first sees the second made, and not the third."""
    made = [threading.Event() for _ in range(3)]

    def things() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    with one_ahead(things()) as coming:
        assert next(coming) == 0
        assert made[1].wait(PATIENCE)
        assert not made[2].is_set()
        assert list(coming) == [1, 2]


def test_nothing_is_made_of_nothing() -> None:
    with one_ahead(iter(())) as coming:
        assert list(coming) == []


def test_an_error_comes_in_its_turn() -> None:
    def things() -> Iterator[int]:
        yield 1
        raise ValueError("the second cannot be made")

    with one_ahead(things()) as coming:
        assert next(coming) == 1
        with pytest.raises(ValueError, match="the second cannot be made"):
            next(coming)


def test_nothing_is_under_way_after_the_block_however_it_ends() -> None:
    threads = set(threading.enumerate())
    with pytest.raises(ValueError, match="0seven"), one_ahead(iter(range(9))) as coming:
        _ = [int(f"{number}seven") for number in coming]
    assert set(threading.enumerate()) == threads
