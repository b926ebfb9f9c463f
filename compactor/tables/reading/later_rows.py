"""Removes from a planned scan the rows that an earlier snapshot has seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compactor.acid.names import Base, Delta, known_directory
from compactor.acid.write_ids import LaterWriteIdList, RangeAnswer, ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.rows.inputs import Input
from compactor.tables.reading.scan_tasks import ScanPlan

#: A list that sees nothing, not even files from before the table was transactional; their write ID is 0.
NOTHING = ValidWriteIdList(table=None, high_watermark=WriteId(-1))


def keep_later_rows(plan: ScanPlan, earlier: ValidWriteIdList, end: ValidWriteIdList) -> ScanPlan:
    """Returns the plan of the rows that ``end`` sees but ``earlier``, an older list of the same table, did not see.

    The snapshot of ``plan`` must see all that ``end`` sees. Rows that were deleted since may be missing, because compactions
    remove them. Delete events that ``earlier`` saw are not needed: it also saw the rows that they delete.
    """
    later = end.since(earlier)
    tasks = [
        replace(task, inserts=_keep_later(task.inserts, later), deletes=_keep_later(task.deletes, later))
        for task in plan.tasks
    ]
    return replace(plan, write_ids=later, tasks=tuple(task for task in tasks if task.inserts))


def _keep_later(inputs: Iterable[Input], later: LaterWriteIdList) -> tuple[Input, ...]:
    """Returns the files that may hold later rows.

    Raw files stay or go together, because their rows are numbered through all files of a directory.
    """
    return tuple(file for file in inputs if later.range_valid(*_range(file)) is not RangeAnswer.NONE)


def _range(file: Input) -> tuple[WriteId, WriteId]:
    match known_directory(file.path.partition("/")[0]):
        case Base(write_id=highest):
            return WriteId(0), max(WriteId(0), highest)
        case Delta(min_write_id=low, max_write_id=high):
            return low, high
    return WriteId(0), WriteId(0)
