"""Changed rows: those that are deleted, those that are written, and the check of rows that are matched twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from compactor.base.errors import Refused, VerificationFailed
from compactor.rewrite.full_acid.delete_events import SortedEvents
from compactor.tables.schema import PARTS, ROW_ID, ROW_ID_TYPE
from compactor.tables.writing.merge_check import ChangedRows
from compactor.tables.writing.row_change import (
    CLAUSE,
    EXACT,
    FILE,
    FILE_TYPE,
    KIND,
    Changed,
    RowChangeKind,
    value_column,
)

Row = tuple[RowChangeKind, int | None, int]


def batch(*rows: Row, partition: str = "", number: int = 0) -> pa.RecordBatch:
    """Changed rows of a table with one column: kind, row ID (None for an added row) and value."""
    ids = [None if row is None else {"writeid": 1, "bucketid": 7, "rowid": row} for _, row, _ in rows]
    files = [None if row is None else {"partition": partition, "number": number} for _, row, _ in rows]
    return pa.record_batch(
        {
            KIND: pa.array([int(kind) for kind, _, _ in rows], pa.int32()),
            ROW_ID: pa.array(ids, ROW_ID_TYPE),
            FILE: pa.array(files, FILE_TYPE),
            value_column(0, [0]): pa.array([value for _, _, value in rows], pa.int64()),
        }
    )


def rows_in(tmp_path: Path, *columns: str, is_checked: bool = True) -> ChangedRows:
    return ChangedRows("db.t", columns or ("i",), 5, str(tmp_path), is_checked=is_checked)


def written(rows: ChangedRows, *batches: pa.RecordBatch) -> list[dict[str, Any]]:
    return [row for found, _ in rows.inserts(batches) for row in found.to_pylist()]


def keys(events: SortedEvents) -> list[Any]:
    found = events.part(0, len(events))
    assert set(found.current.tolist()) == {5}
    return list(found.keys["row_id"].tolist())


def test_an_update_is_a_delete_and_an_insert_of_one_row(tmp_path: Path) -> None:
    rows = rows_in(tmp_path)
    batches = [
        batch((RowChangeKind.DELETE, 1, 0), (RowChangeKind.UPDATE, 2, 20)),
        batch((RowChangeKind.INSERT, None, 30)),
    ]
    named = [(found.to_pydict(), name(0)) for found, name in rows.inserts(batches)]
    assert named == [({"i": [20]}, "the row with ROW__ID (1, 7, 2)"), ({"i": [30]}, "a new row")]
    assert {place: {n: keys(of) for n, of in files.items()} for place, files in rows.deletes().items()} == {
        "": {0: [1, 2]}
    }
    assert rows.counts == Changed(deleted=1, updated=1, inserted=1)


def test_delete_events_are_by_partition_and_file_number(tmp_path: Path) -> None:
    """TABLES rule 6: by the number of the file, not by the bucket in the ROW__ID."""
    rows = rows_in(tmp_path)
    parts = [
        batch((RowChangeKind.DELETE, 5, 0), partition="p=1", number=3),
        batch((RowChangeKind.DELETE, 4, 0), partition="p=2", number=3),
        batch((RowChangeKind.DELETE, 1, 0), partition="p=2", number=0),
    ]
    assert list(rows.inserts(parts)) == []
    assert {place: {n: keys(of) for n, of in files.items()} for place, files in rows.deletes().items()} == {
        "p=1": {3: [5]},
        "p=2": {0: [1], 3: [4]},
    }


@pytest.mark.parametrize("second", [RowChangeKind.UPDATE, RowChangeKind.DELETE, RowChangeKind.NOTHING])
@pytest.mark.parametrize("is_split", [False, True])
def test_a_row_that_is_matched_twice_is_refused(tmp_path: Path, second: RowChangeKind, is_split: bool) -> None:
    """TABLES rule 13; as in Hive it counts that the source's rows match, whatever is done then."""
    twice = [(RowChangeKind.UPDATE, 2, 20), (second, 2, 21)]
    batches = [batch(one) for one in twice] if is_split else [batch(*twice)]
    with pytest.raises(Refused, match=r"cardinality_violation.*hive\.merge\.cardinality\.check"):
        list(rows_in(tmp_path).inserts(batches))


def test_without_the_check_a_row_is_deleted_once_and_has_both_versions(tmp_path: Path) -> None:
    rows = rows_in(tmp_path, is_checked=False)
    found = written(
        rows, batch((RowChangeKind.UPDATE, 2, 20)), batch((RowChangeKind.UPDATE, 2, 21), (RowChangeKind.DELETE, 3, 0))
    )
    assert [row["i"] for row in found] == [20, 21]
    assert keys(rows.deletes()[""][0]) == [2, 3]


def test_a_row_that_is_matched_and_left_alone_is_neither_deleted_nor_written(tmp_path: Path) -> None:
    rows = rows_in(tmp_path)
    assert list(rows.inserts([batch((RowChangeKind.NOTHING, 1, 0), (RowChangeKind.NOTHING, 2, 0))])) == []
    assert rows.deletes() == {}
    assert rows.counts == Changed()


def test_timestamps_that_stay_keep_every_digit(tmp_path: Path) -> None:
    """Spark has microseconds: the values of such a column come exactly, and no others do."""
    exact = pa.array([{"t": {"seconds": 1, "nanos": 123_456_789}}, {"t": None}], pa.struct([pa.field("t", PARTS)]))
    rows = batch((RowChangeKind.UPDATE, 1, 0), (RowChangeKind.UPDATE, 2, 0)).append_column(EXACT, exact)
    rows = rows.append_column("l", pa.array([[0], None], pa.list_(pa.int32())))
    assert written(rows_in(tmp_path, "i", "t", "l"), rows) == [
        {"i": 0, "t": {"seconds": 1, "nanos": 123_456_789}, "l": [0]},
        {"i": 0, "t": None, "l": None},
    ]


def test_each_clause_writes_its_own_values_in_their_own_types(tmp_path: Path) -> None:
    """PROTOCOL 14.3: clauses share a column, or have columns of other types; an added row has what its clause gives."""
    rows = batch(
        (RowChangeKind.UPDATE, 1, 1),
        (RowChangeKind.UPDATE, 2, 2),
        (RowChangeKind.INSERT, None, 3),
        (RowChangeKind.NOTHING, 4, 4),
    )
    for name, values in {
        CLAUSE: pa.array([0, 2, 1, None], pa.int32()),
        value_column(0, [2]): pa.array([None, "20", None, None]),
        value_column(1, [0, 1]): pa.array([1.5, None, 3.5, None]),
        "i": pa.array([10, 11, None, 12]),
        "t": pa.array([100, 101, None, 102]),
        "l": pa.array([1000, 1001, None, 1002]),
    }.items():
        rows = rows.drop_columns([value_column(0, [0])] if value_column(0, [0]) in rows.schema.names else [])
        rows = rows.append_column(name, values)
    assert sorted(written(rows_in(tmp_path, "i", "t", "l"), rows), key=str) == [
        {"i": "20", "t": 101, "l": 1001},
        {"i": 10, "t": 1.5, "l": 1000},
        {"i": None, "t": 3.5, "l": None},
    ]


def test_rows_out_of_order_are_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationFailed, match="out of order"):
        list(rows_in(tmp_path).inserts([batch((RowChangeKind.DELETE, 2, 0)), batch((RowChangeKind.DELETE, 1, 0))]))
