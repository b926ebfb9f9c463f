"""Settings of a live Hive."""

from __future__ import annotations

from tests.support.beside import Beside
from tests.support.hive_defaults import OTHERWISE_4_1, compared


def test_defaults_are_those_of_hive(beside: Beside) -> None:
    other, number = compared(beside.hive.do("defaults"))
    assert other == OTHERWISE_4_1
    assert number > 100
