"""Takes back the requests of lost workers before anything new begins (PROTOCOL 6).

Abort the transaction -> hide the directories that have its number -> remove its staging directory -> queue the request
again. If we abort the transaction ourselves, we hide the directories in the same database transaction, before its locks are
gone. Every pass of every acting role repairs first.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from compactor.acid import txn_states
from compactor.base.errors import (
    BadFile,
    CompactorError,
    DatabaseUnavailable,
    Disagreement,
    NotFound,
    Refused,
    TryAgain,
    failing_alone,
)
from compactor.base.identities import is_compactor
from compactor.base.ids import TxnId
from compactor.base.steps import Step, reach
from compactor.compaction.lost_count import last_message, loss_message, lost_workers
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.metastore.queue.worker_claims import is_being_aborted
from compactor.rewrite.publish import naming, removal
from compactor.site.hidden_outputs import must_lose_nothing
from compactor.site.leftovers import can_hide_early, clear_aborted, clear_leftovers, hider
from compactor.site.mode import Mode, may, may_somewhere
from compactor.site.restored_database import must_be_newest
from compactor.site.site import Site, Target, must_lie_alone

log = logging.getLogger(__name__)
WORKER_TIMEOUT = "hive.compactor.worker.timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """A request that a lost worker had claimed: ``because`` is the evidence, ``result`` its new state."""

    entry: Entry
    because: str
    result: State


def repair(site: Site) -> tuple[Repaired, ...]:
    """Takes back every request of a lost worker. Requests of live workers are not touched.

    One of Hive's workers counts as lost after ``hive.compactor.worker.timeout`` (Hive's ``revokeTimedoutWorkers``), if the
    mode lets us compact.

    In the modes observe and request nothing happens (``lost_requests`` reports lost workers). If the mode lets us act on
    some databases only, only transactions of our workers are timed out. If storage fails, a request stays as it is for the
    next pass, so that no worker starts while leftovers remain.

    Raises:
        Disagreement: the metastore's database is an older copy (PROTOCOL 11.2).
        StorageError: the files that would show an older copy cannot be read.
    """
    if not may_somewhere(site.settings, Mode.COMPACT):
        return ()
    must_be_newest(site, polling=True)
    working = site.metastore.entries.working()
    _time_out(site, working)
    done: list[Repaired] = []
    for entry in working:
        because = evidence_of_loss(site, entry)
        if because is None or not (is_compactor(entry.worker_id) or may(site.settings_of(entry.entity), Mode.COMPACT)):
            continue
        log.warning("%s entry %d: worker %s is lost: %s", entry.entity, entry.id, entry.worker_id, because)
        try:
            with failing_alone(f"{entry.entity} entry {entry.id}"):
                done.append(take_back(site, entry, because))
        except DatabaseUnavailable:
            raise
        except Disagreement as error:
            log.error("%s entry %d: the leftovers of its lost worker stay: %s", entry.entity, entry.id, error)
        except CompactorError as error:
            log.warning("%s entry %d: the leftovers of its lost worker stay for now: %s", entry.entity, entry.id, error)
    return tuple(done)


def time_out(site: Site) -> tuple[TxnId, ...]:
    """Aborts the transactions without a heartbeat for longer than their time-out, and returns them.

    Named directories of our lost workers are hidden first, in the same database transaction.
    """
    return _time_out(site, site.metastore.entries.working())


def _time_out(site: Site, working: Sequence[Entry]) -> tuple[TxnId, ...]:
    timeouts = (site.settings.milliseconds("hive.txn.timeout"), site.settings.milliseconds("hive.repl.txn.timeout"))
    ours = [entry for entry in working if is_compactor(entry.worker_id)]
    spared: set[TxnId] = set()
    hidden: list[TxnId] = []
    if ours:
        deadline = site.metastore.silent_before_ms(timeouts[0])
        silent = {t.id for t in site.metastore.transactions.open_transactions() if t.last_heartbeat < deadline}
        for entry in ours:
            if entry.txn_id not in silent:
                continue
            if _hide_before_locks_end(site, entry, entry.txn_id, timeouts[0]):
                hidden.append(entry.txn_id)
            else:
                spared.add(entry.txn_id)
    ended = site.metastore.transactions.time_out(
        timeouts[0],
        repl_timeout_ms=timeouts[1],
        spared=spared,
        among=None if may(site.settings, Mode.COMPACT) else {e.txn_id for e in ours if e.txn_id is not None},
    )
    states = site.metastore.transactions.states(hidden) if hidden else {}
    aborted = tuple(dict.fromkeys([txn for txn in hidden if states.get(txn) != txn_states.OPEN] + ended))
    if aborted:
        log.warning("no heartbeat for longer than hive.txn.timeout, so aborted: %s", ", ".join(map(str, aborted)))
    return aborted


def _hide_before_locks_end(site: Site, entry: Entry, txn: TxnId, timeout_ms: int) -> bool:
    """Times out the transaction of a lost worker, after hiding its named directories.

    If the store has no rename, or if somebody else was faster, ``take_back`` hides them.

    Returns:
        False if its output may be the only copy of some rows; the transaction stays open (PROTOCOL 11.5).
    """
    try:
        with failing_alone(f"{entry.entity} entry {entry.id}"):
            _hide_and_time_out(site, entry, txn, timeout_ms)
    except Disagreement as error:
        log.error("%s entry %d: the transaction of its lost worker stays open: %s", entry.entity, entry.id, error)
        return False
    except CompactorError as error:
        if isinstance(error, DatabaseUnavailable) and not isinstance(error, TryAgain):
            raise
        log.warning(
            "%s entry %d: directories named by its lost worker are not hidden yet: %s", entry.entity, entry.id, error
        )
    return True


def _hide_and_time_out(site: Site, entry: Entry, txn: TxnId, timeout_ms: int) -> None:
    target = target_of(site, entry)
    if target is None or not can_hide_early(site, target):
        return
    proven = naming.names_of(site.storage, target.location, txn)
    must_lose_nothing(site, target, proven)
    if proven:
        try:
            must_lie_alone(site, target)
        except (
            Disagreement
        ) as error:  # these names may be somebody else's, so the transaction times out without hiding any
            raise Refused(str(error)) from error
    with site.metastore.transactions.timing_out(txn, timeout_ms) as newest:
        if newest is not None:
            removal.hide(site.storage, target.location, proven, until=newest)


def abort_and_hide(site: Site, entry: Entry, txn: TxnId, because: str) -> bool:
    """Aborts the transaction of an entry, and hides its output.

    Returns false if the transaction had ended already.
    """
    hide = hider(site, target_of(site, entry))
    return site.metastore.transactions.abort(txn, because, lambda newest: hide(txn, newest))


def target_of(site: Site, entry: Entry) -> Target | None:
    """Returns the table or partition of ``entry``; None if it was dropped or cannot be understood."""
    try:
        return site.target(entry.entity)
    except (NotFound, BadFile):
        return None


def lost_requests(site: Site) -> tuple[tuple[Entry, str], ...]:
    """Returns the requests of lost workers with the evidence, without acting: for modes that may not act."""
    entries = site.metastore.entries.working()
    return tuple((entry, because) for entry in entries if (because := evidence_of_loss(site, entry)) is not None)


def evidence_of_loss(site: Site, entry: Entry) -> str | None:
    """Returns the evidence that the worker of ``entry`` is lost; None while it may be alive."""
    return _loss_of_ours(site, entry) if is_compactor(entry.worker_id) else _loss_of_hives(site, entry)


def _loss_of_hives(site: Site, entry: Entry) -> str | None:
    """Judges by the entry's age, as Hive does; an open transaction has to time out first."""
    timeout = site.settings.milliseconds(WORKER_TIMEOUT)
    age = 0 if entry.start is None else site.metastore.now_ms() - entry.start
    if not 0 < timeout < age:
        return None
    state = None if entry.txn_id is None else site.metastore.transactions.state(entry.txn_id)
    if state in (txn_states.OPEN, txn_states.COMMITTED):  # committed, a contradiction that only a person can resolve
        return None
    ended = "it has no transaction" if entry.txn_id is None else f"its transaction {entry.txn_id} has ended"
    return f"Hive's worker {entry.worker_id} began {age} ms ago ({WORKER_TIMEOUT} is {timeout} ms) and {ended}"


def _loss_of_ours(site: Site, entry: Entry) -> str | None:
    transactions = site.metastore.transactions
    if entry.txn_id is not None:
        state = transactions.state(entry.txn_id)
        if state == txn_states.OPEN:
            return None
        if state == txn_states.COMMITTED:
            return None  # a contradiction that only a person can resolve; the doctor reports it
        if state == txn_states.ABORTED:
            return f"its transaction {entry.txn_id} is aborted"
    mine = [t for t in transactions.open_transactions() if t.agent == entry.worker_id]
    if mine:
        return None
    age = site.metastore.now_ms() - (entry.start or 0)
    timeout = site.settings.milliseconds("hive.txn.timeout")
    if age > timeout:
        return f"it has no open transaction, {age} ms after its start (hive.txn.timeout is {timeout} ms)"
    return None


def take_back(site: Site, entry: Entry, because: str) -> Repaired:
    """Takes one entry back from its worker; ``because`` is passed on to the caller.

    Raises:
        StorageError: the worker's leftovers cannot be removed; the row stays as it is for the next pass.
        Refused: another table lies there; the same.
        Disagreement: they may be the only copy of some rows (PROTOCOL 11.5); the row stays as it is.
    """
    aborted = is_being_aborted(entry)
    if entry.txn_id is not None:
        abort_and_hide(site, entry, entry.txn_id, "compaction worker lost")
    reach(Step.REPAIR_ABORTED)
    try:
        target = site.target(entry.entity)
        if entry.txn_id is not None:
            clear_aborted(site, target, entry.txn_id)
        clear_leftovers(site, target)
    except (NotFound, BadFile) as error:
        site.metastore.claims.finish(entry, State.REFUSED, str(error))
        return Repaired(entry=entry, because=because, result=State.ABORTED if aborted else State.REFUSED)
    reach(Step.REPAIR_HIDDEN)
    if aborted:
        site.metastore.claims.requeue(entry.id, entry.worker_id or "")
        return Repaired(entry=entry, because=because, result=State.ABORTED)
    return _requeue(site, entry, because)


def _requeue(site: Site, entry: Entry, because: str) -> Repaired:
    """Queues the request again, unless it has lost so many workers that it probably killed them."""
    number = lost_workers(entry) + 1
    gives_up = number >= site.settings.integer("compactor.lost.workers")
    if gives_up:
        message = last_message(number, because)
        log.error("%s entry %d: %s", entry.entity, entry.id, message)
        site.metastore.claims.fail_lost(entry.id, entry.worker_id or "", message)
    else:
        site.metastore.claims.requeue(entry.id, entry.worker_id or "", loss_message(number, because))
    return Repaired(entry=entry, because=because, result=State.FAILED if gives_up else State.INITIATED)
