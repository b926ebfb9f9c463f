"""The table statistics that a worker knows from its output, without a scan (docs/statistics.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compactor.acid.row_figures import ColumnFigures, RowFigures
from compactor.base.ids import WriteId
from compactor.metastore.catalog.values import Column, is_true, parameter
from compactor.metastore.statistics.commit_statistics import CommitStatistics
from compactor.rewrite.plan.unit import Shape
from compactor.worker.phases import StagedEntry

_NOT_UPDATED = "DO_NOT_UPDATE_STATS"  #: the table property that tells Hive's metastore not to change statistics
_SPELLINGS = {"decimal": "decimal(10,0)", "integer": "int", "double precision": "double"}  #: other spellings of a type


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
