"""Units of one entry, run as their runner would."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compactor.errors import CompactorError
from compactor.rewrite.runner import InProcessRunner, Job, Runner
from compactor.rewrite.unit import Unit, UnitResult


def run_units(
    units: Sequence[Unit], runner: Runner | None = None, check: Callable[[], None] = lambda: None
) -> list[UnitResult]:
    """Every unit's result; raises the error of the one that failed."""
    (answer,) = (runner or InProcessRunner()).run([Job(units=units, check=check)])
    if isinstance(answer, CompactorError):
        raise answer
    return answer
