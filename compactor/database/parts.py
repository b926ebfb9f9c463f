"""Splits long lists of values into parts that fit into one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def parts(values: Sequence[_T], count: int) -> Iterator[Sequence[_T]]:
    """Yields ``values`` in parts of at most ``count``."""
    for start in range(0, len(values), count):
        yield values[start : start + count]
