"""A unit of nine stripes, and its split tasks run one by one with values that travel between them."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po

from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.ids import WriteId
from compactor.orc.format.tail import Stripe, read_tail
from compactor.orc.io.source import LocalSource
from compactor.rewrite.full_acid.split import SplitUnit
from compactor.rewrite.plan.unit import Output, Shape, Unit, UnitResult
from compactor.rewrite.run.execute import perform_task
from compactor.rows.inputs import Input
from tests.support.acid_files import FIRST_FILE, ROW_TYPE, dense, write_file
from tests.support.folders import staging_of

WHOLE = 1 << 30  #: more bytes than there are


def inputs(folder: Path, names: Sequence[str]) -> tuple[Input, ...]:
    return tuple(
        Input(path=n, length=(folder / n).stat().st_size, raw="/" not in n, group=n.partition("/")[0]) for n in names
    )


def large_unit(folder: Path) -> Unit:
    """Returns a unit of an original file, a base of six stripes and two deltas; all but two of the stripes have deleted
    rows.
    """
    po.write_table(pa.table({"a": pa.array(range(40), pa.int32())}), str(folder / "000000_0"))
    rows = ["000000_0"]
    for write_id in range(1, 9):
        write_file(folder / f"d{write_id}" / "bucket_00000", dense(write_id, 50 + write_id))
        rows.append(f"d{write_id}/bucket_00000")
    gone = [(write_id, FIRST_FILE, 7 * write_id) for write_id in (0, 1, 2, 5, 6, 8)]
    write_file(folder / "x" / "bucket_00000", gone, current=[9] * len(gone), operation=2)
    return Unit(
        location=str(folder),
        staging=staging_of(folder),
        number=0,
        shape=Shape.MAJOR,
        inserts=inputs(folder, rows),
        deletes=inputs(folder, ["x/bucket_00000"]),
        write_ids=ValidWriteIdList(table="d.t", high_watermark=WriteId(9)),
        first_write_id=WriteId(3),
        row_type=ROW_TYPE,
        small_stripe_bytes=0,
        split_bytes=1,
        full_verify=True,
    )


def travelled(value: Any) -> Any:
    """Returns ``value`` as an executor, or the driver, receives it."""
    return pickle.loads(pickle.dumps(value))


def split_of(unit: Unit) -> SplitUnit:
    found = travelled(perform_task(unit))
    assert isinstance(found, SplitUnit)
    return found


def done(unit: Unit) -> UnitResult:
    split = split_of(unit)
    encoded = [travelled(perform_task(travelled(task))) for task in split.encode_tasks]
    result = travelled(perform_task(travelled(split.last_task(encoded))))
    assert isinstance(result, UnitResult)
    return result


def content(output: Output) -> tuple[list[Any], dict[str, bytes], list[int], object]:
    with LocalSource(output.path) as source:
        tail = read_tail(source)
        rows = po.ORCFile(output.path).read().to_pylist()
        return rows, dict(tail.user_metadata), [s.rows for s in tail.stripes], tail.types


def stripes(unit: Unit) -> list[Stripe]:
    found: list[Stripe] = []
    for source in unit.inserts:
        with LocalSource(f"{unit.location}/{source.path}") as opened:
            found += read_tail(opened).stripes
    return found
