"""Entries that go through the steps of a compaction together, of which each may fail alone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from compactor.compaction.entry import Entity
from compactor.errors import CommitUnknown, CompactorError, LockNotGranted, LostClaim
from compactor.ids import TxnId
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.publish import stage
from compactor.rewrite.run.task_queue import Job
from compactor.service.heartbeat import Heartbeat
from compactor.service.site import Site
from compactor.service.worker.bounds import Budget
from compactor.service.worker.claim import Hold
from compactor.service.worker.outcome import Outcome, Result

log = logging.getLogger(__name__)


class Group:
    """``live`` are those that nothing has ended yet; ``told`` hears of each that has, at once.

    ``broken`` is the first error that is not an entry's own: a bug, or a database that doesn't answer.
    """

    def __init__(self, holds: Iterable[Hold], told: Callable[[Outcome], object]) -> None:
        self.live = list(holds)
        self.broken: BaseException | None = None
        self._told = told

    def each(self, step: Callable[[Hold], object], holds: Iterable[Hold] | None = None) -> None:
        """``step`` of each of ``holds`` (of all); one that fails falls out."""
        for hold in list(self.live if holds is None else holds):
            try:
                step(hold)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is this entry's, and ``out`` tells it
                self.out(hold, error)

    def done(self, hold: Hold, outcome: Outcome) -> None:
        """``hold`` has come to its end."""
        self.live.remove(hold)
        seconds = time.monotonic() - hold.started
        outcome = replace(outcome, seconds=seconds, txn=hold.txn, worker_id=hold.worker_id)
        _log(outcome)
        self._told(outcome)

    def out(self, hold: Hold, error: BaseException) -> None:
        """``hold`` falls out of the group; nothing of it is left behind."""
        try:
            if isinstance(error, CommitUnknown):
                raise error  # nothing may be touched before TXNS can be read again; repair does it then
            if isinstance(error, CompactorError):
                self.done(hold, hold.ended_by(error))
                return
            hold.put_back()
            raise error
        except BaseException as broken:
            log.error("%s entry %d ended in an unexpected error", hold.entry.entity, hold.entry.id, exc_info=broken)
            self.broken = self.broken or broken
            if hold in self.live:
                self.live.remove(hold)

    def fall(self, error: BaseException) -> None:
        """All fall out: a step that they take together has failed."""
        for hold in list(self.live):
            self.out(hold, error)


class Watch:
    """Whether the compactions of a group go on, asked of the database for all of them at once.

    An answer is as fresh as the question, or as one of another entry's since the last question of this one.
    """

    def __init__(self, site: Site, heart: Heartbeat, holds: Iterable[Hold]) -> None:
        self._site = site
        self._heart = heart
        self._holds = list(holds)
        self._lock = threading.Lock()
        self._unasked: set[Hold] = set()
        self._open: frozenset[TxnId] = frozenset()
        self._awaited: frozenset[Entity] = frozenset()

    def job(self, hold: Hold, budget: Budget, units: Sequence[Unit] | None = None) -> Job:
        """The units of what ``hold`` has planned (or ``units``, which are done before), with its questions."""
        return Job(
            units=stage.units_with_targets(hold.site.storage, hold.the_plan) if units is None else units,
            check=lambda: self.check(hold),
            skips=budget.skips(hold.the_plan),
        )

    def check(self, hold: Hold) -> None:
        """Nothing while the compaction of ``hold`` is to go on.

        Raises:
            LostClaim: its transaction is not open any more.
            LockNotGranted: a statement waits for its table exclusively.
        """
        self._heart.check(hold.transaction)
        with self._lock:
            if hold not in self._unasked:
                self._look()
            self._unasked.discard(hold)
            is_open, is_awaited = hold.transaction in self._open, hold.entry.entity in self._awaited
        entity = hold.entry.entity
        if not is_open:
            raise LostClaim(f"{entity}: transaction {hold.transaction} of the compaction is not open any more")
        if is_awaited:
            raise LockNotGranted(f"{entity}: a statement waits for it exclusively; the compaction yields to it")

    def _look(self) -> None:
        metastore = self._site.metastore
        states = metastore.transactions.states([hold.transaction for hold in self._holds])
        self._open = frozenset(txn for txn, state in states.items() if state == "o")
        self._awaited = metastore.locks.awaited_exclusively([hold.entry.entity for hold in self._holds])
        self._unasked = set(self._holds)


def _log(outcome: Outcome) -> None:
    log.log(
        logging.WARNING if outcome.result is Result.FAILED else logging.INFO,
        "%s entry %d: %s%s",
        outcome.entry.entity,
        outcome.entry.id,
        outcome.result.value,
        f": {outcome.message}" if outcome.message else f" in {outcome.seconds:.2f} s",
    )
