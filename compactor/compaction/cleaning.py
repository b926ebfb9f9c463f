"""Decides when obsolete directories may be removed, and how a request ends that cannot be cleaned.

See PROTOCOL 7.

The gate is strict: every transaction that was open when the compaction became visible must have ended. Hive's own
cleaner does not wait for the newest transaction of that moment.
"""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid import txn_states
from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import describe_unparsable
from compactor.acid.names import known_directory
from compactor.base.errors import BadName
from compactor.base.ids import TxnId
from compactor.base.utc import utc_text
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import CompactionType, State
from compactor.settings.precedence import Settings

_RETENTION = "hive.compactor.cleaner.retry.retentionTime"
_ATTEMPTS = "hive.compactor.cleaner.retry.maxattempts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """Permission to remove obsolete directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """An order to wait for the transaction ``holder``.

    ``remember_newest`` asks to store the newest transaction.
    """

    because: str
    holder: TxnId | None = None
    remember_newest: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """An order to move the row from the queue to the history in ``state``.

    ``aborted`` is true if TXNS says that its transaction aborted, so the directories it named must be hidden. Otherwise
    no file is touched: a base with an unknown transaction may be the only one that readers see.
    """

    state: State
    error: str | None = None
    aborted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningFacts:
    """The state of the metastore and storage that decides about a row ready for cleaning.

    Attributes:
        lowest_open: no transaction of any type below it is open or being opened.
        txn_state: TXN_STATE of the row's transaction; None if TXNS no longer has a row for it.
        now_ms: the database's clock.
        exists: whether the table and the partition still exist.
        forbidden_by: where ``no_cleanup`` is set; None if it is not.
        rebalance_committed: whether storage and WRITE_SET prove that a rebalance without stamps committed.
        newest_at_first_sight: the newest transaction when this row was first seen committed; replaces a missing stamp.
        stamped_early: whether newer transactions than the stamp may not see the compaction (Hive 4.2); it counts as missing.
    """

    lowest_open: TxnId
    txn_state: str | None
    now_ms: int
    exists: bool = True
    forbidden_by: str | None = None
    rebalance_committed: bool = False
    newest_at_first_sight: TxnId | None = None
    stamped_early: bool = False


def may_clean(entry: Entry, facts: CleaningFacts, settings: Settings) -> Clean | Wait | Drop:
    """Decides what may happen to a row in ``r`` now."""
    if entry.left_to is not None:
        return Wait(because=f"compaction {entry.id} waits for {entry.left_to}")
    if entry.state is not State.READY_FOR_CLEANING:
        return Wait(because=f"compaction {entry.id} is {entry.state.label}, not ready for cleaning")
    if entry.type is CompactionType.ABORT_CLEANUP:
        return _check_delay(entry, facts.now_ms, settings) or _check_forbidden(entry, facts)
    ended = _check_outcome(entry, facts)
    if ended is not None:
        return ended
    waiting = _check_gate(entry, facts) or _check_delay(entry, facts.now_ms, settings)
    return waiting or _check_forbidden(entry, facts)


def _check_outcome(entry: Entry, facts: CleaningFacts) -> Wait | Drop | None:
    """Returns None if the row's transaction committed (or Hive 3 left a row without one)."""
    txn_state = facts.txn_state
    if entry.txn_id is None or txn_state == txn_states.COMMITTED:
        return None
    if txn_state == txn_states.OPEN:
        return Wait(because=f"its own transaction {entry.txn_id} is still open", holder=entry.txn_id)
    if txn_state == txn_states.ABORTED:
        return Drop(state=State.FAILED, error=f"compaction transaction {entry.txn_id} aborted", aborted=True)
    stamped = entry.next_txn_id is not None or entry.commit_time is not None
    if stamped or (entry.type is CompactionType.REBALANCE and facts.rebalance_committed):
        return None
    return Drop(
        state=State.REFUSED,
        error=f"transaction {entry.txn_id} is no longer in TXNS and left no commit time: whether it committed is "
        "unknown, so nothing is removed",
    )


def _check_gate(entry: Entry, facts: CleaningFacts) -> Wait | None:
    lowest_open = facts.lowest_open
    exact = entry.next_txn_id is not None and not facts.stamped_early
    stamp = entry.next_txn_id if exact else facts.newest_at_first_sight
    if stamp is None:
        return Wait(
            because="the row does not record which transactions were open at its commit; those open now must end first",
            remember_newest=True,
        )
    if stamp < lowest_open:
        return None
    return Wait(
        because=f"transaction {lowest_open} may still read what the compaction replaced (it must be above {stamp})",
        holder=lowest_open,
    )


def _check_delay(entry: Entry, now_ms: int, settings: Settings) -> Wait | None:
    """Delays a retry by the row's retention, counted from the start of the failed cleaning.

    Hive counts from the commit and therefore never waits.
    """
    committed = entry.commit_time or 0
    delay = cleanup_delay(settings)
    due = committed + delay if committed and delay else 0
    if entry.retry_retention:
        due = max(due, max(committed, entry.cleaner_start or 0, entry.enqueue_time or 0) + entry.retry_retention)
    if now_ms > due:
        return None
    if entry.retry_retention:
        return Wait(because=describe_back_off(entry, due))
    return Wait(because=f"hive.compactor.delayed.cleanup.enabled is true; it is cleaned from {utc_text(due)} on")


def describe_back_off(entry: Entry, due: int) -> str:
    """Returns what an entry waits for until ``due`` (epoch ms), or how its last cleaning failed."""
    if entry.waits is not None:
        return f"{entry.waits}; it is cleaned from {utc_text(due)} on"
    return f"cleaning failed ({entry.error or 'the reason is not known'}); tried again from {utc_text(due)} on"


def _check_forbidden(entry: Entry, facts: CleaningFacts) -> Clean | Drop:
    if not facts.exists:
        return Drop(state=State.SUCCEEDED)
    if facts.forbidden_by is not None:
        return Drop(state=State.REFUSED, error=f"no_cleanup of the {facts.forbidden_by} is true; obsolete files stay")
    return Clean()


def cleanup_delay(settings: Settings) -> int:
    """Returns the milliseconds between a commit and its cleaning; 0 unless clean-up is delayed."""
    if not settings.boolean("hive.compactor.delayed.cleanup.enabled"):
        return 0
    return settings.milliseconds("hive.compactor.cleaner.retention.time.seconds")


def check_names(directory: AcidDirectory) -> None:
    """Raises ``BadName`` if a name looks like a base or delta but is neither, or lies too deep."""
    if directory.unparsable:
        raise BadName(
            f"{describe_unparsable(directory.unparsable)}; nothing is removed while it is there: find out who wrote it "
            "and move it out of the table"
        )


def list_removable(directory: AcidDirectory) -> tuple[str, ...]:
    """Returns the names that no reader needs under the cleaner's list, sorted.

    They are obsolete, or aborted writers wrote them.

    The output of a compaction that did not commit is not among them: removing it takes proof that no row is lost (PROTOCOL
    11.5).

    Raises:
        BadName: a name looks like a base or delta but is neither.
    """
    check_names(directory)
    return tuple(sorted({*directory.obsolete, *(name for name in directory.aborted if not is_compaction_output(name))}))


def is_compaction_output(name: str) -> bool:
    """Returns true for a compaction's directory, false for a user's."""
    acid = known_directory(name)
    return acid is not None and acid.visibility_txn_id > 0


def retry_retention(previous_ms: int, settings: Settings) -> int:
    """Returns the milliseconds to wait after a failed cleaning (CQ_RETRY_RETENTION).

    That cleaning had waited ``previous_ms``.

    ``previous_ms`` is 0 for the first failure. The wait doubles at most ``hive.compactor.cleaner.retry.maxattempts``
    times. Hive then gives the row up; here the row stays, with the longest wait, since its files are still there.
    """
    first = settings.milliseconds(_RETENTION)
    longest = first << settings.integer(_ATTEMPTS)
    return min(max(first, previous_ms * 2), longest)
