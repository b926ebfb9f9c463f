"""Keeps a batch reserved while its driver works, and says when it has been taken away from him."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

from compactor.errors import CompactorError
from compactor.state.batches import Batches

log = logging.getLogger(__name__)
_AT_LEAST_EVERY_S = 10.0  #: so soon a driver learns that a person has cancelled it


class Reservation:
    """A thread that extends the reservation of ``batch_id`` ten times in its length, at least every ten seconds.

    A database that is away for a while changes nothing: the entries' own transactions say who may commit.
    """

    def __init__(self, batches: Batches, batch_id: int, driver: str, reserved_ms: int) -> None:
        self._batches = batches
        self._batch_id = batch_id
        self._driver = driver
        self._reserved_ms = reserved_ms
        self._period_s = min(max(reserved_ms, 1) / 10_000, _AT_LEAST_EVERY_S)
        self._stop = threading.Event()
        self._taken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"batch-{batch_id}", daemon=True)

    @property
    def is_held(self) -> bool:
        """False once the batch is not this driver's any more: no further entry is to be begun."""
        return not self._taken.is_set()

    def __enter__(self) -> Reservation:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(self._period_s):
            try:
                held = self._batches.extend(self._batch_id, self._driver, self._reserved_ms)
            except CompactorError as error:
                log.warning("batch %d: its reservation could not be extended: %s", self._batch_id, error)
                continue
            if not held:
                log.warning("batch %d was taken away from this driver; no further entry is begun", self._batch_id)
                self._taken.set()
                return
