"""From staged output to a committed compaction: under which lock each entry is named, and the critical section itself
(PROTOCOL 5)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from compactor.errors import CommitUnknown, LockNotGranted, LostClaim, StorageError
from compactor.locking.lock_types import LockType
from compactor.metastore.queue.commits import Commit
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish import naming, stage
from compactor.rewrite.publish.stage import Staged
from compactor.service.heartbeat import Heartbeat
from compactor.service.site import Site
from compactor.service.worker.bounds import request_rest
from compactor.service.worker.claim import Hold
from compactor.service.worker.group import Group
from compactor.service.worker.outcome import Outcome, Result
from compactor.steps import Step, reach

log = logging.getLogger(__name__)
TOGETHER = 16  #: entries that one transaction of the database commits at most
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.1, 5.0  #: between two tries for the exclusive lock


def name_all(site: Site, group: Group, heart: Heartbeat, again_as_majors: Callable[[Sequence[Hold]], None]) -> None:
    """Names and commits what is staged, each entry for itself: first who needs no lock for it.

    Args:
        again_as_majors: stages these anew, since what their minors made cannot be named as it is.
    """
    majors = [hold for hold in group.live if (reason := _not_as_minor(hold)) and _becomes_major(hold, reason)]
    contenders = [hold for hold in group.live if hold not in majors and _needs_the_table(hold)]
    _finish_all(group, [hold for hold in group.live if hold not in majors and hold not in contenders], heart)

    def give_way(hold: Hold) -> None:
        if not _is_half(hold):
            raise _not_alone(hold)
        _becomes_major(
            hold,
            "readers without visibility would meet one half of its pair, and no exclusive lock was granted within "
            "compactor.lock.wait",
        )
        majors.append(hold)

    group.each(give_way, _contend(group, contenders, heart))
    if majors:
        again_as_majors([hold for hold in majors if hold in group.live])
        name_all(site, group, heart, again_as_majors)


def _becomes_major(hold: Hold, reason: str) -> bool:
    hold.note = reason
    return True


def _not_as_minor(hold: Hold) -> str:
    """Why what a minor made can't be named as it is, whoever else reads now; empty where it can."""
    planned = hold.the_plan
    if planned.shape is Shape.MAJOR:
        return ""
    if hold.the_staged.is_pair and _readers(hold) == "strict":
        return "compactor.readers is strict, and a worker that died between the names of its pair would show one half of it"
    if planned.layout.has_visibility:
        return ""
    if planned.file_format is not None:
        return "Hive 3.1 would show its rows to snapshots from before some of them: insert-only rows bear no write ID"
    return _not_in_one_step(hold.the_staged)


def _not_in_one_step(staged: Staged) -> str:
    """Hive 3.1 shows a directory from the moment of its name, to snapshots of any age, and also where its worker died.

    A base takes one rename, and snapshots below its number leave it alone. A minor equals it only as one directory in
    which no row is left out that an older snapshot still sees.
    """
    if staged.is_pair:
        return "Hive 3.1 would show one half of its pair wherever the other half is late, or never comes"
    if staged.figures.events_applied:
        return "Hive 3.1 would miss rows that were deleted within its range in snapshots from before that"
    return ""


def _needs_the_table(hold: Hold) -> bool:
    """Whether readers without visibility would see some of what is named before the rest (PROTOCOL 5)."""
    return not hold.is_alone and (_is_half(hold) or _files_come_one_by_one(hold))


def _is_half(hold: Hold) -> bool:
    return hold.the_plan.shape is Shape.MINOR and hold.the_staged.is_pair and _readers(hold) != "visibility"


def _readers(hold: Hold) -> str:
    return hold.the_target.settings.text("compactor.readers")


def _files_come_one_by_one(hold: Hold) -> bool:
    guarantees = hold.site.storage.capabilities(hold.the_target.location)
    if guarantees.renames or _readers(hold) == "visibility":
        return False
    directories = hold.the_staged.directories
    return guarantees.needs_exclusive(sum(len(directory.files) for directory in directories), len(directories))


def _not_alone(hold: Hold) -> LockNotGranted:
    store = hold.site.storage.capabilities(hold.the_target.location).store
    files = sum(len(directory.files) for directory in hold.the_staged.directories)
    return LockNotGranted(
        f"{hold.entry.entity}: {store} has no rename, so {files} files are named one by one under an exclusive lock, and "
        "none was granted within compactor.lock.wait; the next pass tries again"
    )


def _contend(group: Group, holds: Sequence[Hold], heart: Heartbeat) -> list[Hold]:
    """Names each of ``holds`` as soon as it has its table alone; those that did not get it in time.

    The lock is tried, never queued for: a reader behind it would wait too (PROTOCOL 5). Who has it is named at once.
    """
    begun, wait = time.monotonic(), _FIRST_WAIT_S
    waiting = list(holds)
    while waiting:
        group.each(lambda hold: _finish(group, hold, heart) if _try(hold, heart) else None, waiting)
        now = time.monotonic()
        waiting = [hold for hold in waiting if hold in group.live]
        in_time = [hold for hold in waiting if now + wait <= begun + _patience_s(hold)]
        if not in_time:
            break
        time.sleep(wait)
        wait = min(wait * 2, _LONGEST_WAIT_S)
    return waiting


def _try(hold: Hold, heart: Heartbeat) -> bool:
    heart.check(hold.transaction)
    site, request = hold.site, hold.the_target.lock(LockType.EXCLUSIVE)
    hold.is_alone = site.metastore.locks.try_acquire(hold.transaction, [request], site.user, site.host) is not None
    return hold.is_alone


def _patience_s(hold: Hold) -> float:
    return hold.the_target.settings.milliseconds("compactor.lock.wait") / 1000


def _finish_all(group: Group, holds: Sequence[Hold], heart: Heartbeat) -> None:
    """Names and commits ``holds``, of which none needs its table alone: as many at once as may go together, and for itself
    whom that failed for."""
    joined = [hold for hold in holds if _may_join(hold)] if len(holds) > 1 else []
    with ThreadPoolExecutor(TOGETHER, thread_name_prefix="tidy") as pool:  # each waits for the disk, and nobody for it
        tidied = [
            pool.submit(_tidy, hold)
            for start in range(0, len(joined), TOGETHER)
            for hold in _finish_together(group, joined[start : start + TOGETHER], heart)
        ]
    for future in tidied:
        future.result()
    group.each(lambda hold: _finish(group, hold, heart), [hold for hold in holds if hold in group.live])


def _may_join(hold: Hold) -> bool:
    """Whether nothing is seen of it while it waits for the others' commit but a directory that is whole and right."""
    return (
        hold.the_plan.layout.has_visibility
        and not hold.rebalances
        and naming.can_name_together(hold.site.storage, [hold.the_staged])
    )


def _finish_together(group: Group, holds: Sequence[Hold], heart: Heartbeat) -> list[Hold]:
    """One critical section for several. Who was lost falls out; where anything else fails all are rolled back, and stay in
    the group to be finished one by one: those that were named already are found so.

    Returns:
        those that are committed; their staging directories are still there.
    """
    group.each(lambda hold: heart.check(hold.transaction), holds)
    live = [hold for hold in holds if hold in group.live]
    if not live:
        return []
    for hold in live:
        heart.let_go(hold.transaction)
    lost: Mapping[Hold, LostClaim] = {}
    unkept: Mapping[str, StorageError] = {}
    try:
        with committing_all(live) as lost:
            unkept = naming.name_together(live[0].site.storage, [hold.the_staged for hold in live if hold not in lost])
            for error in unkept.values():
                raise error
    except CommitUnknown as error:
        unknown = error

        def ask(hold: Hold) -> None:
            if not hold.site.metastore.commits.committed(hold.entry, hold.transaction):
                raise unknown

        group.each(ask, [hold for hold in live if hold not in lost])
    except Exception as error:  # noqa: BLE001 - whose it is shows when each is finished for itself
        log.info("%d compactions are committed one by one: %s", len(live), error)
        for hold in [hold for hold in live if hold.the_staged.location in unkept]:
            group.out(hold, unkept[hold.the_staged.location])  # asked again, its disk may say that all is well
        return []
    for hold, why in lost.items():
        group.out(hold, why)
    committed = [hold for hold in live if hold in group.live]
    for _ in committed:
        reach(Step.COMMITTED)
    group.each(lambda hold: _committed(group, hold), committed)
    return committed


def _finish(group: Group, hold: Hold, heart: Heartbeat) -> None:
    """Names what is staged, commits, and removes the staging directory."""
    site, entry, staged = hold.site, hold.entry, hold.the_staged
    heart.check(hold.transaction)
    heart.let_go(hold.transaction)
    try:
        with committing(hold):
            naming.name_directories(site.storage, staged)
    except CommitUnknown:
        if not site.metastore.commits.committed(entry, hold.transaction):
            raise
    reach(Step.COMMITTED)
    _tidy(hold)
    _committed(group, hold)


def _committed(group: Group, hold: Hold) -> None:
    """What is done once its commit is certain, but for its staging directory."""
    planned, staged = hold.the_plan, hold.the_staged
    request_rest(hold.site, hold.entry, planned.left)
    group.done(
        hold,
        Outcome(
            entry=hold.entry,
            result=Result.COMPACTED,
            message=hold.note or str(planned.left),
            left=planned.left,
            figures=staged.figures,
            output=tuple(d.name for d in staged.directories),
            location=planned.location,
            inputs=planned.inputs,
        ),
    )


def _tidy(hold: Hold) -> None:
    """Removes the staging directory. The compaction is committed: what stays now is the cleaner's to sweep."""
    site, planned = hold.site, hold.the_plan
    try:
        site.storage.remove(planned.staging, durable=False)
        stage.forget_uploads(site.storage, planned)
    except StorageError as error:
        log.warning("%s: the staging directory stays until the partition is cleaned: %s", planned.location, error)
    reach(Step.STAGING_REMOVED)


@contextmanager
def committing(hold: Hold) -> Iterator[None]:
    """The one critical section: locked and re-checked on entry, stamped and committed on exit (PROTOCOL 5)."""
    with committing_all([hold]) as lost:
        for error in lost.values():
            raise error
        yield


@contextmanager
def committing_all(holds: Sequence[Hold]) -> Iterator[Mapping[Hold, LostClaim]]:
    """``committing`` of several: all that are not lost are committed on exit, or none of them."""
    site = holds[0].site
    limit = site.settings.milliseconds("hive.txn.timeout") / 2000
    with site.metastore.commits.committing_all([_commit_of(hold) for hold in holds]) as found:
        reach(Step.COMMITTING)
        begun = time.monotonic()
        yield {hold: error for hold in holds if isinstance(error := found[hold.entry.id], LostClaim)}
        if time.monotonic() - begun > limit:
            raise StorageError(
                f"{holds[0].the_target.location}: naming took longer than {limit:.0f} s, half of hive.txn.timeout"
            )


def _commit_of(hold: Hold) -> Commit:
    target = hold.the_target
    return Commit(
        entry=hold.entry,
        worker_id=hold.worker_id,
        txn=hold.transaction,
        table_id=target.table.id,
        partition_id=target.partition.id if target.partition else None,
        location=target.partition.location if target.partition else target.table.location,
    )
