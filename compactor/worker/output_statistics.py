"""The statistics that a worker knows, without a scan, of its output (docs/statistics.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compactor.acid.row_figures import ColumnFigures, RowFigures
from compactor.base.ids import WriteId
from compactor.metastore.catalog.values import Column, is_true, parameter
from compactor.metastore.statistics.commit_statistics import CommitStatistics
from compactor.rewrite.plan.unit import Shape
from compactor.worker.phases import StagedEntry

_LEFT_ALONE = "DO_NOT_UPDATE_STATS"  #: the property by which Hive's metastore leaves statistics as they are
_ALSO = {"decimal": "decimal(10,0)", "integer": "int", "double precision": "double"}  #: other spellings of a type


def known_statistics(one: StagedEntry) -> CommitStatistics | None:
    """Returns the statistics that the commit of ``one`` writes; None if it is to leave them alone."""
    target, view = one.target, one.scope.view
    settings = target.settings
    if not settings.boolean("hive.compactor.gather.stats") or _is_left_alone(one):
        return None
    files, size = _files_after(one)
    marks = one.site.metastore.dialect.marks_statistics and settings.boolean("hive.txn.stats.enabled")
    return CommitStatistics(
        files=files,
        bytes=size,
        txns=view.txns,
        write_ids=view.write_ids,
        highest=_highest(one),
        rows=_rows(one),
        sets_flags=marks,
        write_id=one.scope.write_id,
    )


def _is_left_alone(one: StagedEntry) -> bool:
    target = one.target
    owners: list[Mapping[str, str]] = [target.table.parameters]
    if target.partition is not None:
        owners.append(target.partition.parameters)
    return any(is_true(parameter(owned, _LEFT_ALONE)) for owned in owners)


def _files_after(one: StagedEntry) -> tuple[int, int]:
    """Returns the number of files that readers have from the commit on, and their bytes, as Hive counts them: those of
    the base and of every delta that is not compacted yet."""
    directory, read = one.scope.view.directory, set(one.plan.inputs)
    made = [file.length for output in one.staged.directories for file in output.files]
    stay = [d for d in (directory.base, *directory.deltas) if d is not None and d.directory not in read]
    lone = [file.length for file in directory.originals if file.path not in read]
    files = len(made) + len(lone) + sum(len(d.files) + len(d.unnumbered) for d in stay)
    return files, sum(made) + sum(lone) + sum(d.total_bytes for d in stay)


def _highest(one: StagedEntry) -> WriteId:
    """Returns the highest write ID of the rows and delete events that the view sees."""
    directory = one.scope.view.directory
    found = [delta.delta.max_write_id for delta in directory.deltas]
    return max([*found, *([directory.base.base.write_id] if directory.base else [])], default=WriteId(0))


def _rows(one: StagedEntry) -> RowFigures | None:
    """Returns the figures of all rows that the view sees; None unless all of them are in the output, and counted."""
    plan, directory, found = one.plan, one.scope.view.directory, one.staged.row_figures
    if plan.shape is not Shape.MAJOR or plan.chunks or plan.left or directory.waiting or found is None:
        return None
    if found.rows != one.staged.figures.rows_out:
        return None
    return replace(found, columns=_named(found, one.target.table.columns, by_name=plan.file_format is not None))


def _named(found: RowFigures, table: tuple[Column, ...], *, by_name: bool) -> tuple[ColumnFigures, ...]:
    """Returns the figures of columns under the table's names, of those that have the table's types.

    Args:
        by_name: readers find the columns of files by name, so all must be in the table's order; else they go by position.
    """
    names = [column.name.lower() for column in table]
    if by_name and [column.name for column in found.columns] != names:
        return ()
    return tuple(
        replace(figures, name=name)
        for figures, name, column in zip(found.columns, names, table, strict=False)
        if figures.type == _ALSO.get(column.type.lower(), column.type.lower())
    )
