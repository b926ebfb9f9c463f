"""A group of entries that go through a compaction together, and each of which may fail alone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from compactor.acid import txn_states
from compactor.base.errors import CommitUnknown, CompactorError, LockNotGranted, LostClaim
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.publish import stage
from compactor.rewrite.run.task_queue import Job
from compactor.site.entry_group import EntryGroup
from compactor.site.heartbeat import Heartbeat
from compactor.site.lost_workers import WORKER_TIMEOUT
from compactor.site.site import Site
from compactor.worker.bounded_requests import Budget
from compactor.worker.compaction_phases import Claimed, Opened, Planned
from compactor.worker.ending import Outcome, Result, end, put_back
from compactor.worker.under_way import UnderWay

log = logging.getLogger(__name__)


class ClaimedEntries(EntryGroup):
    """The claimed entries that have not ended yet, each in its latest phase.

    ``report`` is called with each outcome at once.

    ``broken`` is the first error that does not belong to one entry: a bug, or a database that does not answer.
    """

    def __init__(self, claimed: Sequence[Claimed], report: Callable[[Outcome], object]) -> None:
        super().__init__(claimed)
        self._size = len(claimed)
        self.broken: BaseException | None = None
        self._report = report

    def finish(self, member: Claimed, outcome: Outcome) -> None:
        """Ends an entry with its outcome."""
        self.leave(member)
        txn = member.txn if isinstance(member, Opened) else None
        taken = time.monotonic() - member.started
        outcome = replace(outcome, seconds=taken, together=self._size, txn=txn, worker_id=member.worker_id)
        _log(outcome)
        self._report(outcome)

    def fail_all(self, error: BaseException) -> None:
        """Ends all entries, after a step of the whole group has failed."""
        for member in self.live:
            self.leave(member)
            self._end_failed(member, error)

    def _end_failed(self, member: Claimed, error: BaseException) -> None:
        """Ends an entry with an error, and leaves nothing of it behind."""
        try:
            if isinstance(error, CommitUnknown):
                raise error  # touch nothing until TXNS can be read again; repair ends the entry then
            if isinstance(error, CompactorError):
                self.finish(member, end(member, error))
                return
            put_back(member)
            raise error
        except BaseException as broken:
            log.error("%s entry %d ended in an unexpected error", member.entry.entity, member.entry.id, exc_info=broken)
            self.broken = self.broken or broken


class GroupChecks:
    """Checks that the compactions of a group may go on, with one query for all of them.

    Answers are cached: each entry may use once the state that another entry's check has read.
    """

    def __init__(self, site: Site, heart: Heartbeat, entries: Iterable[Opened]) -> None:
        self._site = site
        self._heart = heart
        self._entries = list(entries)
        self._lock = threading.Lock()
        self._may_reuse: set[int] = set()
        self._open: frozenset[TxnId] = frozenset()
        self._awaited: frozenset[Entity] = frozenset()

    def job(self, planned: Planned, budget: Budget, under_way: UnderWay, units: Sequence[Unit] | None = None) -> Job:
        """Returns a job of the plan's units with the checks between them, and announces it to ``under_way``.

        Args:
            units: runs these units instead: slices, which are merged before the units of the plan.
        """
        unit_sizes = [unit.input_bytes for unit in planned.plan.units]
        slice_sizes = None if units is None else [unit.input_bytes for unit in units]
        return Job(
            units=stage.units_with_targets(planned.site.storage, planned.plan) if units is None else units,
            check=lambda: self.check(planned),
            skips=budget.skips(planned.plan),
            report=under_way.begin(
                planned.entry.id, unit_sizes if slice_sizes is None else slice_sizes, unit_sizes if slice_sizes else ()
            ),
        )

    def check(self, member: Opened) -> None:
        """Checks that the compaction of this entry may go on.

        Raises:
            LostClaim: its transaction is no longer open.
            LockNotGranted: a statement waits for its table exclusively.
            CompactorError: the work has taken longer than ``hive.compactor.worker.timeout``.
        """
        self._must_be_in_time(member)
        self._heart.check(member.txn)
        number, entity = member.entry.id, member.entry.entity
        with self._lock:
            if number not in self._may_reuse:
                self._ask()
            self._may_reuse.discard(number)
            is_open, is_awaited = member.txn in self._open, entity in self._awaited
        if not is_open:
            raise LostClaim(f"{entity}: transaction {member.txn} of the compaction is no longer open")
        if is_awaited:
            raise LockNotGranted(f"{entity}: a statement waits for it exclusively; the compaction yields to it")

    def _must_be_in_time(self, member: Opened) -> None:
        timeout = self._site.settings.milliseconds(WORKER_TIMEOUT)
        if 0 < timeout < 1000 * (time.monotonic() - member.started):
            raise CompactorError(
                f"{member.entry.entity}: worked on for longer than {WORKER_TIMEOUT}, {timeout} ms; nothing of it is kept; "
                "raise it, or bound each request by compactor.max.bytes or compactor.max.time"
            )

    def _ask(self) -> None:
        metastore = self._site.metastore
        states = metastore.transactions.states([member.txn for member in self._entries])
        self._open = frozenset(txn for txn, state in states.items() if state == txn_states.OPEN)
        self._awaited = metastore.locks.awaited_exclusively([member.entry.entity for member in self._entries])
        self._may_reuse = {member.entry.id for member in self._entries}


def _log(outcome: Outcome) -> None:
    log.log(
        logging.WARNING if outcome.result is Result.FAILED else logging.INFO,
        "%s entry %d: %s%s",
        outcome.entry.entity,
        outcome.entry.id,
        outcome.result.value,
        f": {outcome.message}" if outcome.message else f" in {outcome.seconds:.2f} s",
    )
