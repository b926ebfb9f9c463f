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
    """The options of a pass.

    With ``small_stripe_bytes`` None, the default of a unit applies. ``stops`` returns true once the pass has been asked to
    end soon. ``threads`` run steps that only need storage. ``under_way`` collects the progress of each entry.
    """

    full_verify: bool = False
    small_stripe_bytes: int | None = None
    stops: Callable[[], bool] = _goes_on
    threads: SideBySide = field(default_factory=lambda: SideBySide(1, "store"))
    under_way: UnderWay = field(default_factory=UnderWay)
