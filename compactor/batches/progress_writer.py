"""Writes the progress of a pass's entries into our own state, for people who watch them."""

from __future__ import annotations

import logging
from types import TracebackType

from compactor.base.errors import CompactorError
from compactor.site.periodic import Periodic
from compactor.site.site import Site
from compactor.worker.under_way import UnderWay

log = logging.getLogger(__name__)
EVERY_S = 2.0


class ProgressWriter(Periodic):
    """A thread that stores changed progress every two seconds, and removes it when the block ends.

    Each round is one small transaction. Work that takes less than a round leaves no trace. If the database does not answer,
    the next round writes again.
    """

    def __init__(self, site: Site, under_way: UnderWay, every_s: float = EVERY_S) -> None:
        super().__init__("progress", every_s)
        self._site = site
        self._under_way = under_way
        self._written: set[int] = set()

    def _act(self) -> bool:
        state = self._site.state
        if state is None:
            return False
        rows = self._under_way.changed()
        try:
            state.runs.record_progress(self._site.name, rows)
            self._written |= {row.entry_id for row in rows}
        except CompactorError as error:
            log.info("the progress of %d entries could not be stored: %s", len(rows), error)
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._forget()

    def _forget(self) -> None:
        state = self._site.state
        if state is None or not self._written:
            return
        try:
            state.runs.forget_progress(self._site.name, self._written)
        except CompactorError as error:
            log.info("the progress of %d entries could not be removed: %s", len(self._written), error)
