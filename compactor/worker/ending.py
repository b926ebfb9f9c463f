"""The end of an entry that cannot go on: nothing is left behind, and its row says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from compactor.base.errors import (
    BadFile,
    CompactorError,
    DatabaseUnavailable,
    LockNotGranted,
    LostClaim,
    NotFound,
    Refused,
    StorageError,
    failing_alone,
)
from compactor.compaction.states import State
from compactor.site import leftovers
from compactor.site.restored_database import must_not_be_older
from compactor.worker.outcome import Outcome, Result
from compactor.worker.phases import Claimed, Located, Opened, Planned, StagedEntry


def abandon(entry: Claimed, *, is_lost: bool = False) -> None:
    """Hides what the entry named and aborts its transaction with that, then removes what it staged (PROTOCOL 6).

    Args:
        is_lost: true if its transaction or row is no longer its own, as after a restore.

    Raises:
        Disagreement: the metastore's database was put back meanwhile, and its transaction may be somebody else's.
    """
    if not isinstance(entry, Opened):
        return
    site, txn = entry.site, entry.txn
    must_not_be_older(site, polling=not is_lost, remembering=False)
    if isinstance(entry, StagedEntry):
        hide = leftovers.hider(site, entry.target, is_alone=entry.is_alone)
    else:
        hide = leftovers.hider(site, None)  # nothing can have been named yet
    because, own = "compaction transaction abort", entry.worker_id
    site.metastore.transactions.abort(txn, because, lambda newest: hide(txn, newest), agent=own)
    if isinstance(entry, Planned):  # nothing is staged before that
        leftovers.clear_aborted(site, entry.target, txn, may_have_named=isinstance(entry, StagedEntry))


def put_back(entry: Claimed) -> None:
    """Leaves nothing behind, and lets the request wait again."""
    abandon(entry)
    entry.site.metastore.endings.requeue(entry.entry.id, entry.worker_id)


def end(entry: Claimed, error: CompactorError) -> Outcome:
    """Leaves nothing behind, and puts the row into the state that ``error`` means.

    Raises:
        CompactorError: the database doesn't answer; the row stays for repair.
    """
    endings, number = entry.site.metastore.endings, entry.entry.id
    if isinstance(error, StorageError | BadFile) and _has_moved(entry):
        error = LostClaim(
            f"{entry.entry.entity} was dropped, renamed or moved while it was compacted: {error}",
        )
    if isinstance(error, LostClaim):
        ended: list[bool] = []
        outcome = _let_go(
            entry, Result.LOST, error, lambda why: ended.append(endings.end_aborted(number, entry.worker_id))
        )
        return replace(outcome, result=Result.ABORTED) if any(ended) else outcome
    if isinstance(error, LockNotGranted):
        return _let_go(entry, Result.WAITING, error, lambda why: endings.requeue(number, entry.worker_id))
    result, state = (Result.REFUSED, State.REFUSED) if isinstance(error, Refused) else (Result.FAILED, State.FAILED)
    return _let_go(entry, result, error, lambda why: endings.finish(entry.entry, state, why))


def _let_go(entry: Claimed, result: Result, error: CompactorError, settle: Callable[[str], object]) -> Outcome:
    """Leaves nothing behind, then settles the row if it is still this worker's: another worker may have it by now.

    If what we left cannot be removed, the row stays as it is, and repair tries again (PROTOCOL 6).
    """
    try:
        with failing_alone(entry.entry.entity):
            abandon(entry, is_lost=result is Result.LOST)
        settle(str(error))
    except LostClaim as lost:
        return Outcome(entry=entry.entry, result=Result.LOST, message=f"{error}; {lost}")
    except DatabaseUnavailable:
        raise
    except CompactorError as left:
        message = f"{error}; what was staged or named cannot be taken away, the next pass tries again: {left}"
        return Outcome(entry=entry.entry, result=Result.FAILED, message=message)
    return Outcome(entry=entry.entry, result=result, message=str(error))


def _has_moved(entry: Claimed) -> bool:
    """Returns true if the table or partition is no longer there under its name: then the files are not to blame for what
    storage says."""
    if not isinstance(entry, Located):
        return False
    read = entry.target
    try:
        now = entry.site.target(entry.entry.entity, entry.entry.properties)
    except NotFound:
        return True
    return now.place != read.place
