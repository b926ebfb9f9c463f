"""From staged output to a committed compaction: the critical section, and what follows it (PROTOCOL 5)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from compactor.base.errors import CommitUnknown, CompactorError, LostClaim, StorageError, failing_alone
from compactor.base.steps import Step, reach
from compactor.metastore.queue.commit_section import Commit
from compactor.rewrite.publish import naming, stage
from compactor.site import quarantine
from compactor.site.heartbeat import Heartbeat
from compactor.site.side_by_side import SideBySide
from compactor.worker.bounded_requests import request_rest
from compactor.worker.group import Group
from compactor.worker.outcome import Outcome, Result
from compactor.worker.output_statistics import known_statistics
from compactor.worker.phases import Committed, Opened, StagedEntry

log = logging.getLogger(__name__)
TOGETHER = 16  #: the most entries that one transaction of the database commits


def commit_all(group: Group, staged: Sequence[StagedEntry], heart: Heartbeat, threads: SideBySide) -> None:
    """Names and commits entries, none of which needs its table alone: together as many as may go together, and one by one
    the others and those for which that failed."""
    joined = [one for one in staged if _may_join(one)] if len(staged) > 1 else []
    committed = [
        one
        for start in range(0, len(joined), TOGETHER)
        for one in _commit_together(group, joined[start : start + TOGETHER], heart, threads)
    ]
    threads.map(_remove_staging, committed)
    group.each(lambda one: commit_one(group, one, heart), group.still(staged))


def commit_one(group: Group, staged: StagedEntry, heart: Heartbeat) -> None:
    """Names what is staged, commits, and removes the staging directory."""
    site = staged.site
    heart.check(staged.txn)
    heart.let_go(staged.txn)
    try:
        with committing(staged):
            naming.name_directories(site.storage, staged.staged)
    except CommitUnknown:
        if not site.metastore.commits.committed(staged.entry, staged.txn):
            raise
    committed = staged.committed()
    reach(Step.COMMITTED)
    _remove_staging(committed)
    _finish(group, committed)


def _may_join(one: StagedEntry) -> bool:
    """Returns true if readers see nothing of the entry, while it waits for the others' commit, but a directory that is
    complete and right."""
    return (
        one.plan.layout.has_visibility
        and not one.rebalances
        and naming.can_name_together(one.site.storage, [one.staged])
    )


def _commit_together(
    group: Group, staged: Sequence[StagedEntry], heart: Heartbeat, threads: SideBySide
) -> list[Committed]:
    """Commits several entries in one critical section. Lost ones drop out; if anything else fails, all are rolled back and
    stay in the group to be committed one by one, where names that were given already are recognized.

    Returns:
        the committed ones; their staging directories are still there.
    """
    live = group.each(lambda one: heart.check(one.txn), staged)
    if not live:
        return []
    for one in live:
        heart.let_go(one.txn)
    joint = _JointCommit(live, threads)
    try:
        joint.run()
    except CommitUnknown as error:
        group.each(partial(_must_be_committed, error=error), joint.kept)
    except Exception as error:  # noqa: BLE001 - the entry that it belongs to shows when each is committed by itself
        log.info("%d compactions are committed one by one: %s", len(live), error)
        for one in live:
            if (reason := joint.undurable.get(one.staged.location)) is not None:
                group.drop(one, reason)  # asked again, its disk may say that all is well
        return []
    for one in live:
        if (lost := joint.lost.get(one.entry.id)) is not None:
            group.drop(one, lost)
    committed = [one.committed() for one in group.still(live)]
    for _ in committed:
        reach(Step.COMMITTED)
    group.each(lambda one: _finish(group, one), committed)
    return committed


@dataclass(slots=True)
class _JointCommit:
    """The critical section of several entries, and what it found out, also when it fails: lost claims by entry, and by
    location the names that could not be made durable."""

    entries: Sequence[StagedEntry]
    threads: SideBySide
    lost: Mapping[int, LostClaim] = field(default_factory=dict)
    undurable: Mapping[str, StorageError] = field(default_factory=dict)

    @property
    def kept(self) -> list[StagedEntry]:
        return [one for one in self.entries if one.entry.id not in self.lost]

    def run(self) -> None:
        with committing_all(self.entries) as self.lost:
            storage, staged = self.entries[0].site.storage, [one.staged for one in self.kept]
            self.undurable = naming.name_together(storage, staged, self.threads.map)
            for error in self.undurable.values():
                raise error


def _must_be_committed(one: StagedEntry, error: CommitUnknown) -> None:
    if not one.site.metastore.commits.committed(one.entry, one.txn):
        raise error


def _finish(group: Group, committed: Committed) -> None:
    """Does what follows a certain commit, except for the staging directory."""
    planned, staged = committed.plan, committed.staged
    request_rest(committed.site, committed.entry, planned.left)
    group.done(
        committed,
        Outcome(
            entry=committed.entry,
            result=Result.COMPACTED,
            message=committed.note or str(planned.left),
            left=planned.left,
            figures=staged.figures,
            output=tuple(directory.name for directory in staged.directories),
            location=planned.location,
            inputs=planned.inputs,
        ),
    )


def _remove_staging(committed: Committed) -> None:
    """Removes the staging directory. The compaction is committed: if this fails, the cleaner sweeps what stays."""
    site, planned = committed.site, committed.plan
    try:
        with failing_alone(committed.entry.entity):
            quarantine.keep_manifest(site, committed.target, committed.entry, f"{planned.staging}/{stage.MANIFEST}")
            site.storage.remove(planned.staging, durable=False)
            stage.forget_uploads(site.storage, planned)
    except CompactorError as error:
        log.warning("%s: the staging directory stays until the partition is cleaned: %s", planned.location, error)
    reach(Step.STAGING_REMOVED)


@contextmanager
def committing(one: Opened) -> Iterator[None]:
    """The critical section of one entry: locked and re-checked on entry, stamped and committed on exit (PROTOCOL 5)."""
    with committing_all([one]) as lost:
        for error in lost.values():
            raise error
        yield


@contextmanager
def committing_all(entries: Sequence[Opened]) -> Iterator[Mapping[int, LostClaim]]:
    """The same for several entries: on exit, either all that are not lost are committed, or none of them. Yields the lost
    ones by the ids of their entries."""
    site = entries[0].site
    limit = site.settings.milliseconds("hive.txn.timeout") / 2000
    with site.metastore.commits.committing_all([_commit_of(one) for one in entries]) as found:
        reach(Step.COMMITTING)
        begun = time.monotonic()
        yield {one.entry.id: error for one in entries if isinstance(error := found[one.entry.id], LostClaim)}
        if time.monotonic() - begun > limit:
            raise StorageError(
                f"{entries[0].target.location}: naming took longer than {limit:.0f} s, half of hive.txn.timeout"
            )


def _commit_of(one: Opened) -> Commit:
    target = one.target
    return Commit(
        entry=one.entry,
        worker_id=one.worker_id,
        txn=one.txn,
        table_id=target.table.id,
        partition_id=target.partition.id if target.partition else None,
        location=target.partition.location if target.partition else target.table.location,
        statistics=known_statistics(one) if isinstance(one, StagedEntry) else None,
    )
