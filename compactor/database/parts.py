"""Long lists of values, in parts that one statement takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")


def parts(values: Sequence[_T], count: int) -> Iterator[Sequence[_T]]:
    """Yields ``values`` in runs of at most ``count``."""
    for start in range(0, len(values), count):
        yield values[start : start + count]
