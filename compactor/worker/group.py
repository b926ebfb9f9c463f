"""Entries that go through the steps of a compaction together, each of which may fail alone."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from compactor.acid import txn_states
from compactor.base.errors import CommitUnknown, CompactorError, LockNotGranted, LostClaim, failing_alone
from compactor.base.ids import TxnId
from compactor.compaction.entry import Entity
from compactor.rewrite.plan.unit import Unit
from compactor.rewrite.publish import stage
from compactor.rewrite.run.task_queue import Job
from compactor.site.heartbeat import Heartbeat
from compactor.site.lost_workers import WORKER_TIMEOUT
from compactor.site.side_by_side import SideBySide
from compactor.site.site import Site
from compactor.worker.bounded_requests import Budget
from compactor.worker.ending import end, put_back
from compactor.worker.outcome import Outcome, Result
from compactor.worker.phases import Claimed, Opened, Planned
from compactor.worker.under_way import UnderWay

log = logging.getLogger(__name__)
_Before = TypeVar("_Before", bound=Claimed)
_After = TypeVar("_After", bound=Claimed)


class Group:
    """The entries that nothing has ended yet, each in its latest phase. ``report`` is called with each outcome at once.

    ``broken`` is the first error that is not an entry's own: a bug, or a database that doesn't answer.
    """

    def __init__(self, claimed: Iterable[Claimed], report: Callable[[Outcome], object]) -> None:
        self._live: dict[int, Claimed] = {one.entry.id: one for one in claimed}
        self._size = len(self._live)
        self.broken: BaseException | None = None
        self._report = report

    def still(self, entries: Iterable[_Before]) -> list[_Before]:
        """Returns those of ``entries`` that nothing has ended."""
        return [one for one in entries if one.entry.id in self._live]

    def enter(self, entries: Iterable[Claimed]) -> None:
        """Remembers a new phase of live entries, by which each is ended if it fails."""
        for one in entries:
            self._live[one.entry.id] = one

    def advance(self, step: Callable[[_Before], _After | None], entries: Iterable[_Before]) -> list[_After]:
        """Takes each of ``entries`` to the phase that ``step`` returns, and returns those that went on. One whose step
        fails, with whatever error, drops out; a ``step`` that has ended its entry returns None."""
        further: list[_After] = []
        for one in list(entries):
            try:
                with failing_alone(one.entry.entity):
                    after = step(one)
            except CompactorError as error:
                self.drop(one, error)
                continue
            if after is not None:
                self._live[one.entry.id] = after
                further.append(after)
        return further

    def advance_together(
        self, step: Callable[[_Before], _After], entries: Iterable[_Before], threads: SideBySide
    ) -> list[_After]:
        """Does the same side by side, for a step that touches nothing but its own entry."""
        every = list(entries)
        further: list[_After] = []
        for one, after in zip(every, threads.map(partial(_tried, step), every), strict=True):
            if isinstance(after, CompactorError):
                self.drop(one, after)
            else:
                self._live[one.entry.id] = after
                further.append(after)
        return further

    def each(self, step: Callable[[_Before], object], entries: Iterable[_Before]) -> list[_Before]:
        """Does ``step`` for each of ``entries``, and returns those still in the group. One whose step fails drops out."""
        every = list(entries)
        for one in every:
            try:
                with failing_alone(one.entry.entity):
                    step(one)
            except CompactorError as error:
                self.drop(one, error)
        return self.still(every)

    def done(self, one: Claimed, outcome: Outcome) -> None:
        """Ends an entry with its outcome."""
        self.release(one)
        txn = one.txn if isinstance(one, Opened) else None
        taken = time.monotonic() - one.started
        outcome = replace(outcome, seconds=taken, together=self._size, txn=txn, worker_id=one.worker_id)
        _log(outcome)
        self._report(outcome)

    def release(self, one: Claimed) -> None:
        """Takes an entry out of the group, without an outcome."""
        del self._live[one.entry.id]

    def drop(self, one: Claimed, error: BaseException) -> None:
        """Ends an entry by an error; nothing of it is left behind."""
        try:
            if isinstance(error, CommitUnknown):
                raise error  # nothing may be touched before TXNS can be read again; repair does it then
            if isinstance(error, CompactorError):
                self.done(one, end(one, error))
                return
            put_back(one)
            raise error
        except BaseException as broken:
            log.error("%s entry %d ended in an unexpected error", one.entry.entity, one.entry.id, exc_info=broken)
            self.broken = self.broken or broken
            self._live.pop(one.entry.id, None)

    def drop_all(self, error: BaseException) -> None:
        """Ends all entries: a step that they take together has failed."""
        for one in list(self._live.values()):
            self.drop(one, error)


class Watch:
    """Checks that the compactions of a group may go on, by asking the database for all of them at once.

    An answer is as recent as the question, or as the last question of another entry that came after this one's.
    """

    def __init__(self, site: Site, heart: Heartbeat, entries: Iterable[Opened]) -> None:
        self._site = site
        self._heart = heart
        self._entries = list(entries)
        self._lock = threading.Lock()
        self._unasked: set[int] = set()
        self._open: frozenset[TxnId] = frozenset()
        self._awaited: frozenset[Entity] = frozenset()

    def job(self, planned: Planned, budget: Budget, under_way: UnderWay, units: Sequence[Unit] | None = None) -> Job:
        """Returns the units of the plan (or ``units``, which come before them), with the checks between them; ``under_way``
        is told of them."""
        own = [unit.input_bytes for unit in planned.plan.units]
        of_slices = None if units is None else [unit.input_bytes for unit in units]
        return Job(
            units=stage.units_with_targets(planned.site.storage, planned.plan) if units is None else units,
            check=lambda: self.check(planned),
            skips=budget.skips(planned.plan),
            report=under_way.begin(planned.entry.id, own if of_slices is None else of_slices, own if of_slices else ()),
        )

    def check(self, one: Opened) -> None:
        """Returns if the compaction of this entry is to go on.

        Raises:
            LostClaim: its transaction is no longer open.
            LockNotGranted: a statement waits for its table exclusively.
            CompactorError: it has been worked on for longer than ``hive.compactor.worker.timeout``.
        """
        self._must_be_in_time(one)
        self._heart.check(one.txn)
        number, entity = one.entry.id, one.entry.entity
        with self._lock:
            if number not in self._unasked:
                self._ask()
            self._unasked.discard(number)
            is_open, is_awaited = one.txn in self._open, entity in self._awaited
        if not is_open:
            raise LostClaim(f"{entity}: transaction {one.txn} of the compaction is no longer open")
        if is_awaited:
            raise LockNotGranted(f"{entity}: a statement waits for it exclusively; the compaction yields to it")

    def _must_be_in_time(self, one: Opened) -> None:
        timeout = self._site.settings.milliseconds(WORKER_TIMEOUT)
        if 0 < timeout < 1000 * (time.monotonic() - one.started):
            raise CompactorError(
                f"{one.entry.entity}: worked on for longer than {WORKER_TIMEOUT}, {timeout} ms; nothing of it is kept; "
                "raise it, or bound each request by compactor.max.bytes or compactor.max.time"
            )

    def _ask(self) -> None:
        metastore = self._site.metastore
        states = metastore.transactions.states([one.txn for one in self._entries])
        self._open = frozenset(txn for txn, state in states.items() if state == txn_states.OPEN)
        self._awaited = metastore.locks.awaited_exclusively([one.entry.entity for one in self._entries])
        self._unasked = {one.entry.id for one in self._entries}


def _tried(step: Callable[[_Before], _After], one: _Before) -> _After | CompactorError:
    try:
        with failing_alone(one.entry.entity):
            return step(one)
    except CompactorError as error:
        return error


def _log(outcome: Outcome) -> None:
    log.log(
        logging.WARNING if outcome.result is Result.FAILED else logging.INFO,
        "%s entry %d: %s%s",
        outcome.entry.entity,
        outcome.entry.id,
        outcome.result.value,
        f": {outcome.message}" if outcome.message else f" in {outcome.seconds:.2f} s",
    )
