"""The part of a table that travels is all that its writers ask for."""

from __future__ import annotations

import pickle

from compactor.acid.names import DeltaKind
from compactor.base.ids import WriteId
from compactor.metastore.catalog.values import Column, Table
from compactor.rewrite.plan.unit import Output
from compactor.tables.writing.row_change import Changed
from compactor.tables.writing.writer_messages import (
    ChangedPart,
    SharedChange,
    SharedStatement,
    TravellingColumn,
    TravellingShape,
    WrittenPart,
)


def test_a_travelling_shape_is_the_table_s() -> None:
    table = Table(
        id=1,
        database="db",
        name="t",
        location="/t",
        columns=(Column(name="a:b", type="int"),),
        partition_keys=(Column(name="p", type="date"),),
        buckets=3,
        bucket_columns=("a:b",),
        parameters={"orc.compress": "ZSTD"},
    )
    found = pickle.loads(pickle.dumps(TravellingShape.from_table(table)))
    assert str(found) == "db.t"
    assert found.row_type == table.row_type
    assert [(one.name, one.type) for one in (*found.columns, *found.partition_keys)] == [("a:b", "int"), ("p", "date")]
    assert (found.buckets, found.bucket_columns, found.parameters) == (3, ("a:b",), {"orc.compress": "ZSTD"})


def test_a_statement_travels_without_the_properties_of_its_table_in_its_text() -> None:
    shape = TravellingShape(
        name="db.t",
        columns=(TravellingColumn(name="i", type="int"),),
        partition_keys=(),
        buckets=-1,
        bucket_columns=(),
        parameters={"secret": "hidden"},
        row_type="struct<i:int>",
    )
    rows = SharedStatement(table=shape, attempts="/t/.compactor_w1_x", write_id=WriteId(4), is_gregorian=True)
    change = SharedChange(rows=rows, is_checked=True)
    assert pickle.loads(pickle.dumps(change)) == change
    assert "hidden" not in repr(change)


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
