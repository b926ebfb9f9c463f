"""Where units run. The in-process runner is here; ``spark.runner`` binds them to executors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from compactor.rewrite.execute import execute
from compactor.rewrite.unit import Unit, UnitResult


class Runner(Protocol):
    """Runs the units of one entry; several entries' calls may be under way at once."""

    def run(self, units: Sequence[Unit], check: Callable[[], None]) -> list[UnitResult]:
        """Every unit's result, in order.

        Args:
            check: called between units; what it raises stops the rest.

        Raises:
            BadFile, NotLossless, VerificationFailed, StorageError: of the unit that failed.
        """


class InProcessRunner:
    """Runs units in this process, ``threads`` at a time (the codecs release the interpreter's lock)."""

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads

    def run(self, units: Sequence[Unit], check: Callable[[], None]) -> list[UnitResult]:
        def one(unit: Unit) -> UnitResult:
            check()
            return execute(unit)

        if self._threads == 1 or len(units) < 2:
            return [one(unit) for unit in units]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="unit") as pool:
            return list(pool.map(one, units))
