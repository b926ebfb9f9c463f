"""Publishes each staged entry at once, under an exclusive lock, or as a major instead (PROTOCOL 5)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from compactor.base.errors import LockNotGranted
from compactor.locking.lock_types import LockType
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish.stage import Staged
from compactor.site.heartbeat import Heartbeat
from compactor.site.threads import SideBySide
from compactor.worker.claimed_entries import ClaimedEntries
from compactor.worker.commit import commit_all, commit_one
from compactor.worker.compaction_phases import MustBeMajor, StagedEntry

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0  #: between two tries for the exclusive lock


def publish(
    group: ClaimedEntries, staged: Sequence[StagedEntry], heart: Heartbeat, threads: SideBySide
) -> list[MustBeMajor]:
    """Names and commits entries: first the entries that need no exclusive lock, then the others.

    Returns:
        the minors that have to become majors. A major is either published or dropped.
    """
    majors = [member.as_major(reason) for member in staged if (reason := _reason_for_major(member))]
    unfit = {member.entry.id for member in majors}
    contenders = [member for member in staged if member.entry.id not in unfit and _needs_exclusive_lock(member)]
    waiting = {member.entry.id for member in contenders}
    commit_all(group, [member for member in staged if member.entry.id not in unfit | waiting], heart, threads)

    return majors + group.advance(_give_way, _contend(group, contenders, heart))


def _give_way(member: StagedEntry) -> MustBeMajor:
    if not _is_half(member):
        raise _lock_not_granted(member)
    return member.as_major(
        "readers without visibility would meet one half of its pair, and no exclusive lock was granted within "
        "compactor.lock.wait"
    )


def _reason_for_major(member: StagedEntry) -> str:
    """Returns why the output of a minor cannot be named as it is, whoever reads now; empty if it can."""
    planned = member.plan
    if planned.shape is Shape.MAJOR:
        return ""
    if member.staged.is_pair and _readers(member) == "strict":
        return "compactor.readers is strict, and a worker that died between the names of its pair would show one half of it"
    if planned.layout.has_visibility:
        return ""
    if planned.file_format is not None:
        return "Hive 3.1 would show its rows to snapshots from before some of them: insert-only rows carry no write ID"
    return _reason_not_in_one_step(member.staged)


def _reason_not_in_one_step(staged: Staged) -> str:
    """Returns why Hive 3.1 cannot get to see the output of a minor in one step; empty if it can.

    Hive 3.1 shows a directory as soon as it has its name, to snapshots of any age, even if its worker died. A base appears
    with one rename, and snapshots below its number ignore it. A minor is safe only if it is a single directory and no older
    snapshot still needs a row that it dropped.
    """
    if staged.is_pair:
        return "Hive 3.1 would show one half of its pair wherever the other half is late, or never comes"
    if staged.figures.events_applied:
        return "Hive 3.1 would miss rows that were deleted within its range in snapshots from before that"
    return ""


def _needs_exclusive_lock(member: StagedEntry) -> bool:
    """Returns true if readers without visibility would see some of the names before the rest (PROTOCOL 5)."""
    return _is_half(member) or _is_named_file_by_file(member)


def _is_half(member: StagedEntry) -> bool:
    return member.plan.shape is Shape.MINOR and member.staged.is_pair and _readers(member) != "visibility"


def _readers(member: StagedEntry) -> str:
    return member.target.settings.text("compactor.readers")


def _is_named_file_by_file(member: StagedEntry) -> bool:
    guarantees = member.site.storage.capabilities(member.target.location)
    if guarantees.renames or _readers(member) == "visibility":
        return False
    directories = member.staged.directories
    return guarantees.needs_exclusive(sum(len(directory.files) for directory in directories), len(directories))


def _lock_not_granted(member: StagedEntry) -> LockNotGranted:
    store = member.site.storage.capabilities(member.target.location).store
    files = sum(len(directory.files) for directory in member.staged.directories)
    return LockNotGranted(
        f"{member.entry.entity}: {store} has no rename, so {files} files are named one by one under an exclusive lock, and "
        "none was granted within compactor.lock.wait; the next pass tries again"
    )


def _contend(group: ClaimedEntries, contenders: Sequence[StagedEntry], heart: Heartbeat) -> list[StagedEntry]:
    """Publishes each entry as soon as it holds its table exclusively.

    Returns the entries that got no lock in time.

    The lock is tried, never queued for: a reader behind it in the queue would wait too (PROTOCOL 5). An entry that gets the
    lock is named at once.
    """
    started_at, delay = time.monotonic(), _FIRST_WAIT_S
    waiting = list(contenders)
    while waiting:
        for member in waiting:
            alone = [
                contender
                for contender in group.advance(partial(_try_lock, heart=heart), [member])
                if contender.is_alone
            ]
            group.each(lambda member: commit_one(group, member, heart), alone)
        now = time.monotonic()
        waiting = group.remaining(waiting)
        in_time = [member for member in waiting if now + delay <= started_at + _patience_s(member)]
        if not in_time:
            break
        time.sleep(delay)
        delay = min(delay * 2, _LONGEST_WAIT_S)
    return waiting


def _try_lock(member: StagedEntry, heart: Heartbeat) -> StagedEntry:
    """Tries the exclusive lock once. Returns the entry, marked as alone if the lock was granted."""
    heart.check(member.txn)
    site, request = member.site, member.target.lock(LockType.EXCLUSIVE)
    granted = site.metastore.locks.try_acquire(member.txn, [request], site.user, site.host)
    return member if granted is None else member.alone()


def _patience_s(member: StagedEntry) -> float:
    return member.target.settings.milliseconds("compactor.lock.wait") / 1000
