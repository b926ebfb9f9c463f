"""Keeps a batch reserved while its driver works, and notices when it has been taken away."""

from __future__ import annotations

import logging
import threading

from compactor.base.errors import CompactorError
from compactor.site.periodic import Periodic
from compactor.state.batches import Batches

log = logging.getLogger(__name__)
_AT_LEAST_EVERY_S = 10.0  #: so that a driver soon learns that a person has cancelled its batch


class Reservation(Periodic):
    """A thread that extends the reservation of ``batch_id`` ten times within its length, and at least every ten seconds.

    A database that is unreachable for a while changes nothing: the entries' own transactions decide who may commit.
    """

    def __init__(self, batches: Batches, batch_id: int, driver: str, reserved_ms: int) -> None:
        super().__init__(f"batch-{batch_id}", min(max(reserved_ms, 1) / 10_000, _AT_LEAST_EVERY_S))
        self._batches = batches
        self._batch_id = batch_id
        self._driver = driver
        self._reserved_ms = reserved_ms
        self._taken = threading.Event()

    @property
    def is_held(self) -> bool:
        """False once the batch is no longer this driver's: no further entry may be begun."""
        return not self._taken.is_set()

    def _act(self) -> bool:
        try:
            held = self._batches.extend(self._batch_id, self._driver, self._reserved_ms)
        except CompactorError as error:
            log.warning("batch %d: its reservation could not be extended: %s", self._batch_id, error)
            return True
        if not held:
            log.warning("batch %d was taken away from this driver; no further entry is begun", self._batch_id)
            self._taken.set()
        return held
