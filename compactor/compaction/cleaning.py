"""When obsolete directories may go, and what happens to a request that cannot be cleaned (PROTOCOL 7).

The gate is strict: every transaction that was open when the compaction became visible has ended. Hive's own cleaner
also lets through the one that was the newest at that moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid.directory import AcidDirectory
from compactor.compaction.entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.errors import BadName
from compactor.ids import TxnId
from compactor.settings.precedence import Settings

_RETENTION = "hive.compactor.cleaner.retry.retentionTime"
_ATTEMPTS = "hive.compactor.cleaner.retry.maxattempts"
_LOCATION = "location"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """Obsolete directories may be removed now. ``location`` is set for a soft-deleted table or partition (Hive 4)."""

    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Not yet. ``holder`` is the transaction in the way; ``remember_newest`` asks to store the newest transaction."""

    because: str
    holder: TxnId | None = None
    remember_newest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """The row leaves the queue for the history in this state.

    With ``aborted`` TXNS says that its transaction aborted, so what it named is to be hidden. Otherwise no file is
    touched: a base whose transaction is unknown may be the only one that readers see.
    """

    state: State
    error: str | None = None
    aborted: bool = False


def may_clean(
    entry: Entry,
    lowest_open: TxnId,
    txn_state: str | None,
    *,
    now_ms: int,
    settings: Settings,
    exists: bool = True,
    forbidden_by: str | None = None,
    rebalance_committed: bool = False,
    newest_at_first_sight: TxnId | None = None,
) -> Clean | Wait | Drop:
    """What may happen to a row in ``r`` now.

    Args:
        lowest_open: no transaction below it is open or still being opened, of any type.
        txn_state: TXN_STATE of the row's transaction, None when it has no row in TXNS any more.
        now_ms: the database's clock.
        exists: whether the table and the partition are still there.
        forbidden_by: where ``no_cleanup`` is set, None when nowhere.
        rebalance_committed: whether storage and WRITE_SET prove that a rebalance without stamps committed.
        newest_at_first_sight: the newest transaction when this row was first seen; replaces a stamp that is missing.
    """
    if entry.state is not State.READY_FOR_CLEANING:
        return Wait(because=f"compaction {entry.id} is {entry.state.label}, not ready for cleaning")
    if entry.type is CompactionType.ABORT_CLEANUP:
        return _delay(entry, now_ms, settings) or _unless_forbidden(entry, exists, forbidden_by)
    ended = _outcome(entry, txn_state, rebalance_committed)
    if ended is not None:
        return ended
    waiting = _gate(entry, lowest_open, newest_at_first_sight) or _delay(entry, now_ms, settings)
    return waiting or _unless_forbidden(entry, exists, forbidden_by)


def _outcome(entry: Entry, txn_state: str | None, rebalance_committed: bool) -> Wait | Drop | None:
    """None when the row's transaction committed (or Hive 3 left a row without one)."""
    if entry.txn_id is None or txn_state == "c":
        return None
    if txn_state == "o":
        return Wait(because=f"its own transaction {entry.txn_id} is still open", holder=entry.txn_id)
    if txn_state == "a":
        return Drop(state=State.FAILED, error=f"compaction transaction {entry.txn_id} aborted", aborted=True)
    stamped = entry.next_txn_id is not None or entry.commit_time is not None
    if stamped or (entry.type is CompactionType.REBALANCE and rebalance_committed):
        return None
    return Drop(
        state=State.REFUSED,
        error=f"transaction {entry.txn_id} is not in TXNS any more and left no commit time: whether it committed is "
        "unknown, so nothing is removed",
    )


def _gate(entry: Entry, lowest_open: TxnId, newest_at_first_sight: TxnId | None) -> Wait | None:
    stamp = entry.next_txn_id if entry.next_txn_id is not None else newest_at_first_sight
    if stamp is None:
        return Wait(
            because="the row does not say which transactions were open at its commit; those open now must end first",
            remember_newest=True,
        )
    if stamp < lowest_open:
        return None
    return Wait(
        because=f"transaction {lowest_open} may still read what the compaction replaced (it must be above {stamp})",
        holder=lowest_open,
    )


def _delay(entry: Entry, now_ms: int, settings: Settings) -> Wait | None:
    """A failed cleaning is tried again its retention after it began (Hive counts from the commit, so never waits)."""
    committed = entry.commit_time or 0
    delay = delayed_cleanup(settings)
    due = committed + delay if committed and delay else 0
    if entry.retry_retention:
        due = max(due, max(committed, entry.cleaner_start or 0, entry.enqueue_time or 0) + entry.retry_retention)
    if now_ms > due:
        return None
    reason = "its last cleaning failed" if entry.retry_retention else "hive.compactor.delayed.cleanup.enabled is true"
    return Wait(because=f"{reason}: not before {due} (epoch ms), {due - now_ms} ms from now")


def _unless_forbidden(entry: Entry, exists: bool, forbidden_by: str | None) -> Clean | Drop:
    location = entry.properties.get(_LOCATION)
    if location is not None:
        return Clean(location=location)
    if not exists:
        return Drop(state=State.SUCCEEDED)
    if forbidden_by is not None:
        return Drop(state=State.REFUSED, error=f"no_cleanup of the {forbidden_by} is true; obsolete files stay")
    return Clean()


def delayed_cleanup(settings: Settings) -> int:
    """Milliseconds between a commit and its cleaning; 0 unless clean-up is delayed."""
    if not settings.boolean("hive.compactor.delayed.cleanup.enabled"):
        return 0
    return settings.milliseconds("hive.compactor.cleaner.retention.time.seconds")


def removable(directory: AcidDirectory) -> tuple[str, ...]:
    """What nobody reads any more under the cleaner's list: obsolete and aborted names, sorted.

    Raises:
        BadName: something there looks like a base or delta and is none.
    """
    if directory.unparsable:
        raise BadName(
            f"{', '.join(directory.unparsable)}: begins like a base or delta and is none; nothing is removed while it "
            "is there: find out who wrote it and move it out of the table"
        )
    return tuple(sorted({*directory.obsolete, *directory.aborted}))


def retry_retention(previous_ms: int, settings: Settings) -> int:
    """Milliseconds to wait after a failed cleaning that had waited ``previous_ms`` (CQ_RETRY_RETENTION; 0 at first).

    The first wait, then twice the one before, ``hive.compactor.cleaner.retry.maxattempts`` times at most. Hive gives a
    row up after so many attempts; here it keeps its row and its longest wait, since its files still lie there.
    """
    first = settings.milliseconds(_RETENTION)
    longest = first << settings.integer(_ATTEMPTS)
    return min(max(first, previous_ms * 2), longest)
