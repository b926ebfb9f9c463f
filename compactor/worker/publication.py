"""The way each staged entry is published: at once, under an exclusive lock, or as a major instead (PROTOCOL 5)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from compactor.base.errors import LockNotGranted
from compactor.locking.lock_types import LockType
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish.stage import Staged
from compactor.site.heartbeat import Heartbeat
from compactor.site.side_by_side import SideBySide
from compactor.worker.commit import commit_all, commit_one
from compactor.worker.group import Group
from compactor.worker.phases import MustBeMajor, StagedEntry

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0  #: between two tries for the exclusive lock


def publish(group: Group, staged: Sequence[StagedEntry], heart: Heartbeat, threads: SideBySide) -> list[MustBeMajor]:
    """Names and commits entries, each by itself as far as readers can tell: first those that need no lock for it.

    Returns:
        the minors that have to become majors; a major is either published or dropped.
    """
    majors = [one.as_major(reason) for one in staged if (reason := _not_as_minor(one))]
    unfit = {one.entry.id for one in majors}
    contenders = [one for one in staged if one.entry.id not in unfit and _needs_the_table(one)]
    waiting = {one.entry.id for one in contenders}
    commit_all(group, [one for one in staged if one.entry.id not in unfit | waiting], heart, threads)

    return majors + group.advance(_give_way, _contend(group, contenders, heart))


def _give_way(one: StagedEntry) -> MustBeMajor:
    if not _is_half(one):
        raise _not_alone(one)
    return one.as_major(
        "readers without visibility would meet one half of its pair, and no exclusive lock was granted within "
        "compactor.lock.wait"
    )


def _not_as_minor(one: StagedEntry) -> str:
    """Returns why the output of a minor can't be named as it is, no matter who reads now; empty if it can."""
    planned = one.plan
    if planned.shape is Shape.MAJOR:
        return ""
    if one.staged.is_pair and _readers(one) == "strict":
        return "compactor.readers is strict, and a worker that died between the names of its pair would show one half of it"
    if planned.layout.has_visibility:
        return ""
    if planned.file_format is not None:
        return "Hive 3.1 would show its rows to snapshots from before some of them: insert-only rows carry no write ID"
    return _not_in_one_step(one.staged)


def _not_in_one_step(staged: Staged) -> str:
    """Returns why Hive 3.1 could not be shown the output of a minor in one step; empty if it can.

    Hive 3.1 shows a directory from the moment of its name, to snapshots of any age, and also where its worker died. A base
    takes one rename, and snapshots below its number ignore it. A minor is as good only as one directory from which no row
    is missing that an older snapshot still sees.
    """
    if staged.is_pair:
        return "Hive 3.1 would show one half of its pair wherever the other half is late, or never comes"
    if staged.figures.events_applied:
        return "Hive 3.1 would miss rows that were deleted within its range in snapshots from before that"
    return ""


def _needs_the_table(one: StagedEntry) -> bool:
    """Returns true if readers without visibility would see some of the names before the rest (PROTOCOL 5)."""
    return _is_half(one) or _files_come_one_by_one(one)


def _is_half(one: StagedEntry) -> bool:
    return one.plan.shape is Shape.MINOR and one.staged.is_pair and _readers(one) != "visibility"


def _readers(one: StagedEntry) -> str:
    return one.target.settings.text("compactor.readers")


def _files_come_one_by_one(one: StagedEntry) -> bool:
    guarantees = one.site.storage.capabilities(one.target.location)
    if guarantees.renames or _readers(one) == "visibility":
        return False
    directories = one.staged.directories
    return guarantees.needs_exclusive(sum(len(directory.files) for directory in directories), len(directories))


def _not_alone(one: StagedEntry) -> LockNotGranted:
    store = one.site.storage.capabilities(one.target.location).store
    files = sum(len(directory.files) for directory in one.staged.directories)
    return LockNotGranted(
        f"{one.entry.entity}: {store} has no rename, so {files} files are named one by one under an exclusive lock, and "
        "none was granted within compactor.lock.wait; the next pass tries again"
    )


def _contend(group: Group, contenders: Sequence[StagedEntry], heart: Heartbeat) -> list[StagedEntry]:
    """Publishes each entry as soon as it has its table alone; returns those that did not get it in time.

    The lock is tried, never queued for: a reader behind it would wait too (PROTOCOL 5). An entry that gets it is named at
    once.
    """
    begun, wait = time.monotonic(), _FIRST_WAIT_S
    waiting = list(contenders)
    while waiting:
        for one in waiting:
            alone = [tried for tried in group.advance(partial(_tried, heart=heart), [one]) if tried.is_alone]
            group.each(lambda one: commit_one(group, one, heart), alone)
        now = time.monotonic()
        waiting = group.still(waiting)
        in_time = [one for one in waiting if now + wait <= begun + _patience_s(one)]
        if not in_time:
            break
        time.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT_S)
    return waiting


def _tried(one: StagedEntry, heart: Heartbeat) -> StagedEntry:
    """Returns the entry with its table alone if the exclusive lock is granted at once, else as it is."""
    heart.check(one.txn)
    site, request = one.site, one.target.lock(LockType.EXCLUSIVE)
    granted = site.metastore.locks.try_acquire(one.txn, [request], site.user, site.host)
    return one if granted is None else one.alone()


def _patience_s(one: StagedEntry) -> float:
    return one.target.settings.milliseconds("compactor.lock.wait") / 1000
