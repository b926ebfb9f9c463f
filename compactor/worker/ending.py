"""Ends an entry that cannot go on: removes its leftovers, and records the reason in its row."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace

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
from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.rewrite.plan.plan import NOTHING_LEFT, Remainder
from compactor.rewrite.plan.unit import Figures
from compactor.site import leftovers
from compactor.site.restored_database import must_not_be_older
from compactor.site.site import Target
from compactor.worker.compaction_phases import Claimed, Located, Opened, Planned, StagedEntry


class Result(enum.Enum):
    """The result of a worker's work on an entry."""

    COMPACTED = "compacted"
    CLEAN_ONLY = "nothing to merge, obsolete directories are left to the cleaner"
    REFUSED = "refused"
    FAILED = "failed"
    WAITING = "put back into the queue"
    LOST = "somebody else's by now"
    ABORTED = "aborted by a person"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of the work on one entry.

    ``message`` gives the reason; ``seconds`` run from claim to commit.
    """

    entry: Entry
    result: Result
    message: str = ""
    figures: Figures = field(default_factory=Figures)
    seconds: float = 0.0
    together: int = 1  #: number of entries in the group, each of which waits for the others
    output: tuple[str, ...] = ()
    location: str = ""
    inputs: tuple[str, ...] = ()  #: top-level names that were read; in ``location``, like ``output``
    txn: TxnId | None = None
    worker_id: str | None = None
    left: Remainder = NOTHING_LEFT  #: input that a bound of the request left out


def abandon(entry: Claimed, *, is_lost: bool = False) -> None:
    """Hides the entry's named output while aborting its transaction, then removes staged output.

    See PROTOCOL 6.

    Args:
        is_lost: true if the transaction or row no longer belongs to the entry, as after a restore.

    Raises:
        Disagreement: the metastore's database was put back meanwhile, and the transaction may belong to somebody else.
    """
    if not isinstance(entry, Opened):
        return
    site, txn = entry.site, entry.txn
    must_not_be_older(site, polling=not is_lost, remembering=False)
    named = entry if isinstance(entry, StagedEntry) and not _is_gone(entry) else None  # no others have a name to hide
    hide = leftovers.hider(site, named.target, is_alone=named.is_alone) if named else leftovers.hider(site, None)
    reason, agent = "compaction transaction abort", entry.worker_id
    site.metastore.transactions.abort(txn, reason, lambda newest: hide(txn, newest), agent=agent)
    if named:
        leftovers.clear_aborted(site, named.target, txn)
    elif isinstance(entry, Planned):  # earlier phases have staged nothing
        leftovers.clear_staged(site, entry.target, entry.plan)


def put_back(entry: Claimed) -> None:
    """Abandons the work on an entry, and puts its request back into the queue."""
    abandon(entry)
    entry.site.metastore.claims.requeue(entry.entry.id, entry.worker_id)


def end(entry: Claimed, error: CompactorError) -> Outcome:
    """Abandons the work on an entry, and puts its row into the state that ``error`` implies.

    Raises:
        CompactorError: the database does not answer; the row stays for repair.
    """
    claims, number = entry.site.metastore.claims, entry.entry.id
    if isinstance(error, StorageError | BadFile) and _has_moved(entry):
        error = LostClaim(
            f"{entry.entry.entity} was dropped, renamed or moved while it was compacted: {error}",
        )
    if isinstance(error, LostClaim):
        aborted: list[bool] = []
        outcome = _let_go(
            entry, Result.LOST, error, lambda message: aborted.append(claims.end_aborted(number, entry.worker_id))
        )
        return replace(outcome, result=Result.ABORTED) if any(aborted) else outcome
    if isinstance(error, LockNotGranted):
        return _let_go(entry, Result.WAITING, error, lambda message: claims.requeue(number, entry.worker_id))
    result, state = (Result.REFUSED, State.REFUSED) if isinstance(error, Refused) else (Result.FAILED, State.FAILED)
    return _let_go(entry, result, error, lambda message: claims.finish(entry.entry, state, message))


def _let_go(entry: Claimed, result: Result, error: CompactorError, settle: Callable[[str], object]) -> Outcome:
    """Abandons the work, then calls ``settle``, which fails if another worker has the row by now.

    If the leftovers cannot be removed, the row stays as it is, and repair tries again (PROTOCOL 6).
    """
    try:
        with failing_alone(entry.entry.entity):
            abandon(entry, is_lost=result is Result.LOST)
        settle(str(error))
    except LostClaim as lost:
        return Outcome(entry=entry.entry, result=Result.LOST, message=f"{error}; {lost}")
    except DatabaseUnavailable:
        raise
    except CompactorError as cleanup_error:
        message = f"{error}; what was staged or named cannot be taken away, the next pass tries again: {cleanup_error}"
        return Outcome(entry=entry.entry, result=Result.FAILED, message=message)
    return Outcome(entry=entry.entry, result=result, message=str(error))


def _target_now(entry: Located) -> Target | None:
    """Returns the table or partition that has the entry's name now; None if none has it."""
    try:
        return entry.site.target(entry.entry.entity, entry.entry.properties)
    except NotFound:
        return None


def _is_gone(entry: Located) -> bool:
    """Returns true if the table or partition was dropped.

    Another one may have its name and directory by now.
    """
    current = _target_now(entry)
    return current is None or current.table.id != entry.target.table.id


def _has_moved(entry: Claimed) -> bool:
    """Returns true if the table or partition was dropped, renamed or moved."""
    if not isinstance(entry, Located):
        return False
    current = _target_now(entry)
    return current is None or current.place != entry.target.place
