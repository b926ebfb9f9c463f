"""Commits staged output: the critical section, and the steps after it (PROTOCOL 5)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from compactor.acid.row_figures import ColumnFigures, RowFigures
from compactor.base.errors import CommitUnknown, CompactorError, LostClaim, StorageError, failing_alone
from compactor.base.ids import WriteId
from compactor.base.steps import Step, reach
from compactor.metastore.catalog.values import Column, is_true, parameter
from compactor.metastore.queue.commit_section import EntryCommit
from compactor.metastore.statistics.commit_statistics import CommitStatistics
from compactor.rewrite.plan.unit import Shape
from compactor.rewrite.publish import naming, stage
from compactor.site import quarantine
from compactor.site.heartbeat import Heartbeat
from compactor.site.threads import SideBySide
from compactor.worker.bounded_requests import request_rest
from compactor.worker.claimed_entries import ClaimedEntries
from compactor.worker.compaction_phases import Committed, Opened, StagedEntry
from compactor.worker.ending import Outcome, Result

log = logging.getLogger(__name__)
TOGETHER = 16  #: the most entries that one database transaction commits
_NOT_UPDATED = "DO_NOT_UPDATE_STATS"  #: the table property that tells Hive's metastore not to change statistics
_SPELLINGS = {"decimal": "decimal(10,0)", "integer": "int", "double precision": "double"}  #: other spellings of a type


def commit_all(group: ClaimedEntries, staged: Sequence[StagedEntry], heart: Heartbeat, threads: SideBySide) -> None:
    """Names and commits entries that need no exclusive lock.

    Commits in batches where allowed; the rest, and the entries of failed batches, one at a time.
    """
    joined = [member for member in staged if _may_commit_together(member)] if len(staged) > 1 else []
    committed = [
        member
        for start in range(0, len(joined), TOGETHER)
        for member in _commit_together(group, joined[start : start + TOGETHER], heart, threads)
    ]
    threads.map(_remove_staging, committed)
    group.each(lambda member: commit_one(group, member, heart), group.remaining(staged))


def commit_one(group: ClaimedEntries, staged: StagedEntry, heart: Heartbeat) -> None:
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
    _finish_committed(group, committed)


def _may_commit_together(member: StagedEntry) -> bool:
    """Returns true if the entry may wait for other commits between its names and its own commit.

    Meanwhile a reader sees either nothing of it or one directory that is complete and correct.
    """
    return (
        member.plan.layout.has_visibility
        and not member.rebalances
        and naming.can_name_together(member.site.storage, [member.staged])
    )


def _commit_together(
    group: ClaimedEntries, staged: Sequence[StagedEntry], heart: Heartbeat, threads: SideBySide
) -> list[Committed]:
    """Commits several entries in one critical section.

    Lost entries drop out. If anything else fails, all are rolled back and stay in the group, to be committed one by one.
    Those commits recognize directories that have their names already.

    Returns:
        the committed entries, whose staging directories still exist.
    """
    live = group.each(lambda member: heart.check(member.txn), staged)
    if not live:
        return []
    for member in live:
        heart.let_go(member.txn)
    joint = _JointCommit(live, threads)
    try:
        joint.run()
    except CommitUnknown as error:
        group.each(partial(_check_committed, error=error), joint.kept)
    except Exception as error:  # noqa: BLE001 - committing each entry alone shows which one it belongs to
        log.info("%d compactions are committed one by one: %s", len(live), error)
        # a second try could succeed although the first write was lost
        group.fail_each(lambda member: joint.undurable.get(member.staged.location), live)
        return []
    still_ours = group.fail_each(lambda member: joint.lost.get(member.entry.id), live)
    committed = [member.committed() for member in still_ours]
    for _ in committed:
        reach(Step.COMMITTED)
    group.each(lambda member: _finish_committed(group, member), committed)
    return committed


@dataclass(slots=True)
class _JointCommit:
    """The critical section of several entries, with results that are also valid when it fails.

    ``lost`` has the lost claims by entry id, ``undurable`` the errors of names that could not be made durable by location.
    """

    entries: Sequence[StagedEntry]
    threads: SideBySide
    lost: Mapping[int, LostClaim] = field(default_factory=dict)
    undurable: Mapping[str, StorageError] = field(default_factory=dict)

    @property
    def kept(self) -> list[StagedEntry]:
        return [member for member in self.entries if member.entry.id not in self.lost]

    def run(self) -> None:
        with committing_all(self.entries) as self.lost:
            storage, staged = self.entries[0].site.storage, [member.staged for member in self.kept]
            self.undurable = naming.name_together(storage, staged, self.threads.map)
            for error in self.undurable.values():
                raise error


def _check_committed(member: StagedEntry, error: CommitUnknown) -> None:
    if not member.site.metastore.commits.committed(member.entry, member.txn):
        raise error


def _finish_committed(group: ClaimedEntries, committed: Committed) -> None:
    """Requests what the compaction left and reports its outcome, after a certain commit."""
    planned, staged = committed.plan, committed.staged
    request_rest(committed.site, committed.entry, planned.left)
    group.finish(
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
    """Removes the staging directory of a committed compaction.

    If this fails, the cleaner removes it later.
    """
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
def committing(member: Opened) -> Iterator[None]:
    """The critical section of one entry: locked and re-checked on entry, stamped and committed on exit.

    See PROTOCOL 5.
    """
    with committing_all([member]) as lost:
        for error in lost.values():
            raise error
        yield


@contextmanager
def committing_all(entries: Sequence[Opened]) -> Iterator[Mapping[int, LostClaim]]:
    """The critical section of several entries: on exit, all that are not lost are committed, or none.

    Yields the errors of the lost entries by their ids.
    """
    site = entries[0].site
    limit = site.settings.milliseconds("hive.txn.timeout") / 2000
    with site.metastore.commits.committing_all([_commit_of(member) for member in entries]) as results:
        reach(Step.COMMITTING)
        started_at = time.monotonic()
        yield {member.entry.id: error for member in entries if isinstance(error := results[member.entry.id], LostClaim)}
        if time.monotonic() - started_at > limit:
            raise StorageError(
                f"{entries[0].target.location}: naming took longer than {limit:.0f} s, half of hive.txn.timeout"
            )


def _commit_of(member: Opened) -> EntryCommit:
    target = member.target
    return EntryCommit(
        entry=member.entry,
        worker_id=member.worker_id,
        txn=member.txn,
        table_id=target.table.id,
        partition_id=target.partition.id if target.partition else None,
        location=target.partition.location if target.partition else target.table.location,
        statistics=known_statistics(member) if isinstance(member, StagedEntry) else None,
    )


def known_statistics(member: StagedEntry) -> CommitStatistics | None:
    """Returns the statistics that the commit of ``member`` writes; None if it must not change them."""
    target, view = member.target, member.scope.view
    settings = target.settings
    if not settings.boolean("hive.compactor.gather.stats") or _is_left_alone(member):
        return None
    files, size = _files_after(member)
    marks = member.site.metastore.dialect.marks_statistics and settings.boolean("hive.txn.stats.enabled")
    return CommitStatistics(
        files=files,
        bytes=size,
        txns=view.txns,
        write_ids=view.write_ids,
        highest=_highest_write_id(member),
        rows=_row_figures(member),
        sets_flags=marks,
        write_id=member.scope.write_id,
    )


def _is_left_alone(member: StagedEntry) -> bool:
    target = member.target
    owners: list[Mapping[str, str]] = [target.table.parameters]
    if target.partition is not None:
        owners.append(target.partition.parameters)
    return any(is_true(parameter(owned, _NOT_UPDATED)) for owned in owners)


def _files_after(member: StagedEntry) -> tuple[int, int]:
    """Returns the number and bytes of the files after the commit, as Hive counts them.

    Hive counts the files of the base and of every delta that is not compacted yet.
    """
    directory, read = member.scope.view.directory, set(member.plan.inputs)
    output_sizes = [file.length for output in member.staged.directories for file in output.files]
    staying = [d for d in (directory.base, *directory.deltas) if d is not None and d.directory not in read]
    original_sizes = [file.length for file in directory.originals if file.path not in read]
    files = len(output_sizes) + len(original_sizes) + sum(len(d.files) + len(d.unnumbered) for d in staying)
    return files, sum(output_sizes) + sum(original_sizes) + sum(d.total_bytes for d in staying)


def _highest_write_id(member: StagedEntry) -> WriteId:
    """Returns the highest write ID of the rows and delete events that the view sees."""
    directory = member.scope.view.directory
    write_ids = [delta.delta.max_write_id for delta in directory.deltas]
    return max([*write_ids, *([directory.base.base.write_id] if directory.base else [])], default=WriteId(0))


def _row_figures(member: StagedEntry) -> RowFigures | None:
    """Returns the figures of all rows that the view sees.

    Returns None unless the output holds and counts all of them.
    """
    plan, directory, figures = member.plan, member.scope.view.directory, member.staged.row_figures
    if plan.shape is not Shape.MAJOR or plan.chunks or plan.left or directory.waiting or figures is None:
        return None
    if figures.rows != member.staged.figures.rows_out:
        return None
    return replace(
        figures, columns=_name_columns(figures, member.target.table.columns, by_name=plan.file_format is not None)
    )


def _name_columns(rows: RowFigures, table: tuple[Column, ...], *, by_name: bool) -> tuple[ColumnFigures, ...]:
    """Returns the figures of the columns that have the table's types, under the table's names.

    Args:
        by_name: readers find the columns of files by name, so all must be in the table's order; otherwise by position.
    """
    names = [column.name.lower() for column in table]
    if by_name and [column.name for column in rows.columns] != names:
        return ()
    return tuple(
        replace(column_figures, name=name)
        for column_figures, name, column in zip(rows.columns, names, table, strict=False)
        if column_figures.type == _SPELLINGS.get(column.type.lower(), column.type.lower())
    )
