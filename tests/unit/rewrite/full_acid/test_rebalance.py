"""The unit of a rebalance over real files: order, distribution, keys and refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as po
import pyorc
import pytest

from compactor.acid import bucket
from compactor.acid.bucket import RowId
from compactor.acid.write_ids import ValidWriteIdList
from compactor.base.errors import NotSupported, VerificationFailed
from compactor.base.ids import TxnId, WriteId
from compactor.compaction.order_by import OrderBy, parse_order_by
from compactor.orc.format.hive_types import parse_hive_type, schema_text
from compactor.orc.format.types import acid_types
from compactor.rewrite.full_acid import delete_events
from compactor.rewrite.full_acid import rebalance as module
from compactor.rewrite.full_acid.merge import RowSorter
from compactor.rewrite.full_acid.rebalance import column_keys, plan_rebalance
from compactor.rewrite.plan.plan import Plan
from compactor.rewrite.plan.unit import FileNumberInputs, Rebalance, Shape, Unit, UnitResult
from compactor.rows.inputs import Input
from tests.support.acid_files import ROW_TYPE, dense, write_file
from tests.support.folders import staging_of
from tests.support.units import execute

OWN = WriteId(9)


def write(path: Path, row_type: str, rows: Sequence[tuple[Any, ...]], write_id: int, number: int) -> Input:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file, pyorc.Writer(file, schema_text(acid_types(parse_hive_type(row_type)))) as writer:
        for place, row in enumerate(rows):
            writer.write((0, write_id, bucket.encode(number), place, write_id, row))
    return Input(path=f"{path.parent.name}/{path.name}", length=path.stat().st_size)


def unit(root: Path, row_type: str, parts: Sequence[FileNumberInputs], files: int, order_by: str | None = None) -> Unit:
    order = parse_order_by(order_by) if order_by else ()
    return Unit(
        location=str(root),
        staging=staging_of(root),
        number=0,
        shape=Shape.MAJOR,
        inserts=tuple(source for part in parts for source in part.inserts),
        deletes=tuple(source for part in parts for source in part.deletes),
        write_ids=ValidWriteIdList(table="d.t", high_watermark=OWN),
        first_write_id=WriteId(1),
        row_type=row_type,
        full_verify=True,
        rebalance=Rebalance(parts=tuple(parts), files=files, write_id=OWN, order_by=order),
    )


def table(root: Path, row_type: str, batches: Sequence[Sequence[tuple[Any, ...]]]) -> list[FileNumberInputs]:
    """Writes each batch to a delta of its own, distributed over two files in turn."""
    found: dict[int, list[Input]] = {0: [], 1: []}
    for write_id, rows in enumerate(batches, start=1):
        for number in found:
            path = root / f"delta_{write_id}_{write_id}" / f"bucket_0000{number}"
            found[number].append(write(path, row_type, rows[number::2], write_id, number))
    return [FileNumberInputs(number=number, inserts=tuple(sources), deletes=()) for number, sources in found.items()]


def rows_of(result: UnitResult) -> list[list[Any]]:
    return [[tuple(row["row"].values()) for row in po.ORCFile(o.path).read().to_pylist()] for o in result.outputs]


def keys_of(result: UnitResult) -> list[RowId]:
    names = ("originalTransaction", "bucket", "rowId")
    return [
        RowId(*(row[name] for name in names)) for o in result.outputs for row in po.ORCFile(o.path).read().to_pylist()
    ]


ROWS = [[(n, f"row {n}") for n in range(first, first + 10)] for first in (0, 10, 20)]
TYPE = "struct<a:int,b:string>"


def test_rows_keep_order_and_write_id(tmp_path: Path) -> None:
    """The order is Hive's: write ID, bucket, row number; row numbers continue from file to file of the result."""
    result = execute(unit(tmp_path, TYPE, table(tmp_path, TYPE, ROWS), 4))
    found = rows_of(result)
    assert [len(rows) for rows in found] == [8, 8, 7, 7]
    in_order = [row for rows in ROWS for number in (0, 1) for row in rows[number::2]]
    assert [row for rows in found for row in rows] == in_order
    wanted = [
        RowId(WriteId(1 + place // 10), bucket.encode(number), place)
        for place, number in enumerate([0] * 8 + [1] * 8 + [2] * 7 + [3] * 7)
    ]
    assert keys_of(result) == wanted
    f = result.figures
    assert (f.rows_in, f.rows_out, f.files_in, f.files_out, f.stripes_encoded) == (30, 30, 6, 4, 6)
    assert f.bytes_out == sum(output.length for output in result.outputs)
    assert not list((tmp_path / ".compactor_v7").rglob("run-*"))


def test_deletes_meet_the_rows_of_their_own_file_only(tmp_path: Path) -> None:
    """PROTOCOL 1.3: events of another file's rows are dead, and stay so when both files become one."""
    first, second = table(tmp_path, ROW_TYPE, [[(n,) for n in range(6)]])
    deleted = [(1, bucket.encode(1), 0), (1, bucket.encode(0), 2)]
    path = write_file(tmp_path / "delete_delta_2_2" / "bucket_00000", sorted(deleted), current=[2, 2], operation=2)
    source_of_events = Input(path="delete_delta_2_2/bucket_00000", length=path.stat().st_size)
    result = execute(unit(tmp_path, ROW_TYPE, [replace(first, deletes=(source_of_events,)), second], 1))
    assert (result.figures.rows_deleted, result.figures.rows_out, result.figures.events_in) == (1, 5, 2)


def test_a_lost_delete_event_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 4: its row would come back."""
    first, second = table(tmp_path, ROW_TYPE, [[(n,) for n in range(6)]])
    path = write_file(tmp_path / "x" / "bucket_00000", dense(1, 2), current=[2, 2], operation=2)
    source = Input(path="x/bucket_00000", length=path.stat().st_size)
    asked = unit(tmp_path, ROW_TYPE, [replace(first, deletes=(source,)), second], 1)
    add = delete_events.EventSorter.add
    monkeypatch.setattr(delete_events.EventSorter, "add", lambda sorter, found: add(sorter, found[1:]))
    with pytest.raises(VerificationFailed, match="delete events to be applied have"):
        execute(asked)
    assert execute(replace(asked, full_verify=False)).figures.rows_out == 5


def test_deletes_hit_their_own_rows_if_keys_are_out_of_order(tmp_path: Path) -> None:
    """PROTOCOL 2.3: statistics would take another row for deleted; the unit starts again and reads all keys."""
    keys = [*dense(1, 6, bucket=bucket.encode(0))[1:], (1, bucket.encode(0), 0)]
    rows = write_file(tmp_path / "delta_1_1" / "bucket_00000", keys)
    path = write_file(tmp_path / "delete_delta_2_2" / "bucket_00000", [keys[0]], current=[2], operation=2)
    source = Input(path="delta_1_1/bucket_00000", length=rows.stat().st_size)
    source_of_events = Input(path="delete_delta_2_2/bucket_00000", length=path.stat().st_size)
    asked = unit(tmp_path, ROW_TYPE, [FileNumberInputs(number=0, inserts=(source,), deletes=(source_of_events,))], 1)
    result = execute(replace(asked, full_verify=False))
    assert sorted(rows_of(result)[0]) == [(0,), (2,), (3,), (4,), (5,)]
    assert (result.figures.rows_in, result.figures.rows_deleted, result.figures.rows_out) == (6, 1, 5)


ORDERS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("int", "a", [3, None, 1, 2], [1, 2, 3, None]),
    ("int", "a desc", [3, None, 1, 2], [None, 3, 2, 1]),
    ("int", "a nulls first", [3, None, 1, 2], [None, 1, 2, 3]),
    ("int", "a desc nulls last", [3, None, 1, 2], [3, 2, 1, None]),
    ("double", "a", [float("inf"), None, float("nan"), -1.0], [-1.0, float("inf"), float("nan"), None]),
    ("double", "a desc", [1.0, None, float("nan"), 2.0], [None, float("nan"), 2.0, 1.0]),
    ("string", "a", ["é", "z", None, "a", "Z"], ["Z", "a", "z", "é", None]),
    ("boolean", "a desc nulls last", [False, None, True], [True, False, None]),
    (
        "timestamp",
        "a",
        [datetime(2020, 1, 2), None, datetime(2019, 5, 5)],
        [datetime(2019, 5, 5), datetime(2020, 1, 2), None],
    ),
    ("timestamp", "a desc", [datetime(1200, 1, 2), datetime(2019, 5, 5)], [datetime(2019, 5, 5), datetime(1200, 1, 2)]),
]


@pytest.mark.parametrize(("kind", "order", "values", "wanted"), ORDERS)
def test_order_by(
    tmp_path: Path, kind: str, order: str, values: list[Any], wanted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive's order, with NULL and NaN, holds over all files, even if every few rows are a run of their own on disk."""
    monkeypatch.setattr(module, "RowSorter", lambda folder, keys: RowSorter(folder, keys, run_bytes=1, fan_in=2))
    row_type = f"struct<a:{kind}>"
    result = execute(unit(tmp_path, row_type, table(tmp_path, row_type, [[(v,)] for v in values]), 2, order))
    found = []
    for output in result.outputs:
        with open(output.path, "rb") as file:
            found += [row[5][0] for row in pyorc.Reader(file)]
    assert [str(value)[:19] for value in found] == [str(value)[:19] for value in wanted]
    assert {key.write_id for key in keys_of_pyorc(result)} == {OWN}


def keys_of_pyorc(result: UnitResult) -> list[RowId]:
    found = []
    for output in result.outputs:
        with open(output.path, "rb") as file:
            found += [RowId(*row[1:4]) for row in pyorc.Reader(file)]
    return found


def test_ties_stay_in_the_order_of_their_row_ids(tmp_path: Path) -> None:
    rows = [[(n % 2, f"row {n}") for n in range(10)]]
    result = execute(unit(tmp_path, TYPE, table(tmp_path, TYPE, rows), 1, "A"))
    assert rows_of(result) == [[*rows[0][0::2], *rows[0][1::2]]]


def test_a_changed_value_fails_verification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 4: counts are right, a value is not."""

    class Broken(RowSorter):
        def sorted(self) -> Any:
            for batch in super().sorted():
                column = batch.column(5)
                first = pa.concat_arrays([column.slice(1, 1), column.slice(1)])
                yield batch.set_column(5, batch.schema.field(5), first)

    monkeypatch.setattr(module, "RowSorter", Broken)
    with pytest.raises(VerificationFailed, match="the values read have the checksum"):
        execute(unit(tmp_path, TYPE, table(tmp_path, TYPE, ROWS), 1))


def test_the_plan_has_one_unit_and_its_own_write_id(tmp_path: Path) -> None:
    parts = table(tmp_path, TYPE, ROWS)
    units = [replace(unit(tmp_path, TYPE, [part], 1), number=part.number, rebalance=None) for part in parts]
    plan = Plan(
        shape=Shape.MAJOR,
        units=tuple(units),
        lowest_write_id=WriteId(1),
        highest_write_id=WriteId(3),
        txn=TxnId(7),
        location=str(tmp_path),
        staging=staging_of(tmp_path),
        row_type=TYPE,
        inputs=("delta_1_1",),
    )
    order = (OrderBy(column="a"),)
    made = plan_rebalance(plan, OWN, None, order)
    (one,) = made.units
    assert one.rebalance == Rebalance(parts=tuple(parts), files=2, write_id=OWN, order_by=order)
    assert (made.highest_write_id, made.input_bytes, made.inputs) == (OWN, plan.input_bytes, plan.inputs)
    (five,) = plan_rebalance(plan, OWN, 5, ()).units
    assert five.rebalance is not None
    assert five.rebalance.files == 5
    with pytest.raises(NotSupported, match="4097 files"):
        plan_rebalance(plan, OWN, 4097, ())


def test_a_column_that_the_rows_lack_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotSupported, match="ORDER BY c: is not a column of the rows; there are a, b"):
        execute(unit(tmp_path, TYPE, table(tmp_path, TYPE, ROWS), 1, "c"))


def test_keys_of_a_column() -> None:
    values = pa.chunked_array([pa.array([1.0, None, float("nan")])])
    rank, value = column_keys(values, OrderBy(column="a"))
    assert rank.values.to_pylist() == [0, 2, 1]
    assert (rank.direction, value.direction) == ("ascending", "ascending")
    rank, value = column_keys(values, OrderBy(column="a", descending=True, nulls_first=True))
    assert rank.values.to_pylist() == [0, -2, -1]
    assert (rank.direction, value.direction) == ("ascending", "descending")
