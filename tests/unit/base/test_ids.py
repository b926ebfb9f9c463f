"""The two numbers."""

from __future__ import annotations

from compactor.base.ids import NOTHING_OPEN, ORIGINALS_ONLY


def test_limits_are_those_of_a_java_long() -> None:
    assert ORIGINALS_ONLY == -9223372036854775808
    assert NOTHING_OPEN == 9223372036854775807
