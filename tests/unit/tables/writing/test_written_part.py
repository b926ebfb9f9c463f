from __future__ import annotations

import pickle

from compactor.acid.names import DeltaKind
from compactor.rewrite.plan.unit import Output
from compactor.tables.writing.row_change import Changed
from compactor.tables.writing.written_part import ChangedPart, WrittenPart


def part(*rows: int) -> WrittenPart:
    outputs = tuple(
        Output(kind=DeltaKind.INSERT, path=f"/t/bucket_{number}", number=number, rows=count, length=9, crc32=None)
        for number, count in enumerate(rows)
    )
    return WrittenPart(partition="p=1", statement_id=3, directory="/t", outputs=outputs)


def test_a_part_has_the_rows_of_all_its_files() -> None:
    assert part(2, 5).rows == 7
    assert part().rows == 0


def test_a_part_travels() -> None:
    changed = ChangedPart(parts=(part(1), part(2)), counts=Changed(inserted=3))
    assert pickle.loads(pickle.dumps(changed)) == changed
