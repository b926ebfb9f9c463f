"""Units of one entry, run as their runner would run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import CompactorError
from compactor.base.ids import WriteId
from compactor.rewrite.plan.unit import Shape, Unit, UnitResult
from compactor.rewrite.run.runner import InProcessRunner, Runner
from compactor.rewrite.run.task_queue import Job
from compactor.rows.inputs import Input
from tests.support.acid_files import ROW_TYPE, dense, write_file
from tests.support.folders import staging_of

SEEN = ValidWriteIdList(table="d.t", high_watermark=WriteId(9), aborted=frozenset({WriteId(5)}))


def small_unit(folder: Path) -> Unit:
    """Returns a unit of one file with three rows in ``folder``."""
    write_file(folder / "d" / "bucket_00000", dense(1, 3))
    return Unit(
        location=str(folder),
        staging=staging_of(folder),
        number=0,
        shape=Shape.MAJOR,
        inserts=(Input(path="d/bucket_00000", length=1),),
        deletes=(),
        write_ids=ValidWriteIdList(table="d.t", high_watermark=WriteId(3)),
        first_write_id=WriteId(1),
        row_type=ROW_TYPE,
    )


def acid_unit(
    folder: Path, shape: Shape, *, rows: Sequence[str] = (), deletes: Sequence[str] = (), first: int = 1, **more: int
) -> Unit:
    """Returns a unit of the files at these paths in ``folder``; write IDs up to 9 are valid except 5. ``small`` is the
    upper bound of its small stripes.
    """

    def inputs(names: Sequence[str]) -> tuple[Input, ...]:
        return tuple(
            Input(path=n, length=(folder / n).stat().st_size, raw="/" not in n, group=n.partition("/")[0])
            for n in names
        )

    return Unit(
        location=str(folder),
        staging=staging_of(folder),
        number=0,
        shape=shape,
        inserts=inputs(rows),
        deletes=inputs(deletes),
        write_ids=SEEN,
        first_write_id=WriteId(first),
        row_type=ROW_TYPE,
        small_stripe_bytes=more.get("small", 0),
        full_verify=True,
    )


def run_units(
    units: Sequence[Unit], runner: Runner | None = None, check: Callable[[], None] = lambda: None
) -> list[UnitResult]:
    """Returns every unit's result; raises the error of a unit that failed."""
    (answer,) = (runner or InProcessRunner()).run([Job(units=units, check=check)])
    if isinstance(answer, CompactorError):
        raise answer
    return answer


def execute(unit: Unit) -> UnitResult:
    """Returns the result of one unit, in however many tasks."""
    return run_units([unit])[0]
