from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.rewrite.full_acid.row_sorter import RowSorter, SortKey
from tests.support.sizes import sized

ROWS = sized(short=400, whole=1500)


def keys(table: pa.Table) -> Sequence[SortKey]:
    return [SortKey(values=table.column("a"), direction="descending"), SortKey(values=table.column("b"))]


def batch(rows: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    numbers = pa.array([b for _, b in rows], pa.int64())
    row = pa.StructArray.from_arrays([numbers, pa.array([f"row {b}" for _, b in rows])], names=["x", "y"])
    return pa.record_batch({"a": pa.array([a for a, _ in rows], pa.int32()), "b": numbers, "row": row})


@pytest.mark.parametrize(("run_bytes", "fan_in"), [(1 << 20, 16), (2000, 16), (2000, 2), (1, 3), (ROWS * 13, 3)])
@pytest.mark.parametrize("values", [3, 10_000])
def test_any_number_of_runs_is_sorted(tmp_path: Path, run_bytes: int, fan_in: int, values: int) -> None:
    made = random.Random(run_bytes)
    rows = [(made.randrange(values), number) for number in range(ROWS)]
    made.shuffle(rows)
    sorter = RowSorter(str(tmp_path), keys, run_bytes=run_bytes, fan_in=fan_in)
    for start in range(0, len(rows), 37):
        sorter.add(batch(rows[start : start + 37]))
    assert sorter.rows == ROWS
    spilled = len(os.listdir(tmp_path))
    assert (spilled > 0) == (run_bytes < 1 << 20)
    found = list(sorter.sorted())
    wanted = sorted(rows, key=lambda row: (-row[0], row[1]))
    table = pa.Table.from_batches(found)
    assert list(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True)) == wanted
    assert table["row"].to_pylist() == [{"x": b, "y": f"row {b}"} for _, b in wanted]
    assert len(os.listdir(tmp_path)) <= max(fan_in, 1)
    sorter.discard()
    assert os.listdir(tmp_path) == []


def test_merged_batches_together_are_no_larger_than_a_run(tmp_path: Path) -> None:
    """PROTOCOL 2.4: memory is bounded by rows and their width."""
    sorter = RowSorter(str(tmp_path), keys, run_bytes=10_000, fan_in=4)
    for start in range(0, 3000, 100):
        sorter.add(batch([(number * 7919 % 3000, number) for number in range(start, start + 100)]))
    sizes = [found.nbytes for found in sorter.sorted()]
    assert sum(sizes) > 60_000
    assert max(sizes) < 20_000


def test_no_rows_are_sorted(tmp_path: Path) -> None:
    assert list(RowSorter(str(tmp_path), keys).sorted()) == []
