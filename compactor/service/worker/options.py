"""The options of a worker's pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


def _goes_on() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a pass. ``small_stripe_bytes`` None leaves the unit's own bound; ``stops`` returns true once the pass
    is asked to end soon."""

    full_verify: bool = False
    small_stripe_bytes: int | None = None
    stops: Callable[[], bool] = _goes_on
