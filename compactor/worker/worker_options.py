"""The options of a worker's pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from compactor.site.side_by_side import SideBySide
from compactor.worker.under_way import UnderWay


def _goes_on() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a pass. ``small_stripe_bytes`` None leaves the unit's own bound; ``stops`` returns true once the pass
    is asked to end soon; ``threads`` do what only the store is asked for; ``under_way`` is told of the units
    of each entry."""

    full_verify: bool = False
    small_stripe_bytes: int | None = None
    stops: Callable[[], bool] = _goes_on
    threads: SideBySide = field(default_factory=lambda: SideBySide(1, "store"))
    under_way: UnderWay = field(default_factory=UnderWay)
