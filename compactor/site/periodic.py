"""A thread that repeats an action while a block runs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Periodic(ABC):
    """Calls ``_act`` every ``period_s`` seconds until the block ends or ``_act`` returns false."""

    def __init__(self, name: str, period_s: float) -> None:
        self._period_s = period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            if not self._act():
                return

    @abstractmethod
    def _act(self) -> bool:
        """Acts once. Returns false to stop; an exception ends the thread."""
