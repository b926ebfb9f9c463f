"""Units of one entry, run as their runner would."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from compactor.acid.write_ids import ValidWriteIdList
from compactor.errors import CompactorError
from compactor.ids import WriteId
from compactor.rewrite.plan.unit import Shape, Unit, UnitResult
from compactor.rewrite.run.runner import InProcessRunner, Job, Runner
from compactor.rows.inputs import Input
from tests.support.acid_files import ROW_TYPE, dense, write_file


def small_unit(folder: Path) -> Unit:
    """Three rows of one file in ``folder``."""
    write_file(folder / "d" / "bucket_00000", dense(1, 3))
    return Unit(
        location=str(folder),
        staging=str(folder / "_compactor_v7"),
        number=0,
        shape=Shape.MAJOR,
        inserts=(Input(path="d/bucket_00000", length=1),),
        deletes=(),
        write_ids=ValidWriteIdList(table="d.t", high_watermark=WriteId(3)),
        first_write_id=WriteId(1),
        row_type=ROW_TYPE,
    )


def run_units(
    units: Sequence[Unit], runner: Runner | None = None, check: Callable[[], None] = lambda: None
) -> list[UnitResult]:
    """Every unit's result; raises the error of the one that failed."""
    (answer,) = (runner or InProcessRunner()).run([Job(units=units, check=check)])
    if isinstance(answer, CompactorError):
        raise answer
    return answer


def execute(unit: Unit) -> UnitResult:
    """What comes of one unit, by however many tasks."""
    return run_units([unit])[0]
