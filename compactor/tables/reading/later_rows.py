"""Leaves out of a planned scan what an earlier snapshot has seen. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from compactor.acid.names import Base, Delta, known_directory
from compactor.acid.write_ids import LaterWriteIdList, RangeAnswer, ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.rows.inputs import Input
from compactor.tables.reading.scan_tasks import ScanPlan

#: The list that sees nothing at all, not even the files of a table from before it was transactional, whose write ID is 0.
NOTHING = ValidWriteIdList(table=None, high_watermark=WriteId(-1))


def later_rows(plan: ScanPlan, earlier: ValidWriteIdList, end: ValidWriteIdList) -> ScanPlan:
    """Returns the plan of those rows that ``end`` sees and ``earlier``, an older list of the same table, did not.

    The snapshot of ``plan`` has to see all that ``end`` does. A row that was deleted since may be missing: compactions
    remove it. The delete events that ``earlier`` saw are not needed: each row that they delete, it saw too.
    """
    later = end.since(earlier)
    tasks = [replace(one, inserts=_of(one.inserts, later), deletes=_of(one.deletes, later)) for one in plan.tasks]
    return replace(plan, write_ids=later, tasks=tuple(one for one in tasks if one.inserts))


def _of(inputs: Iterable[Input], later: LaterWriteIdList) -> tuple[Input, ...]:
    """Returns the files in which there may be something later; of raw ones, whose rows are numbered through all files of a
    directory, all or none."""
    return tuple(one for one in inputs if later.range_valid(*_range(one)) is not RangeAnswer.NONE)


def _range(one: Input) -> tuple[WriteId, WriteId]:
    match known_directory(one.path.partition("/")[0]):
        case Base(write_id=highest):
            return WriteId(0), max(WriteId(0), highest)
        case Delta(min_write_id=low, max_write_id=high):
            return low, high
    return WriteId(0), WriteId(0)
