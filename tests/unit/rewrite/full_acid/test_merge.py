"""Merging runs, compared with ``sorted()``."""

from __future__ import annotations

import itertools
import os
import random
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.base.errors import NotLossless
from compactor.orc.codecs import stripe_view
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.orc.pieces import Piece, piece_batches
from compactor.rewrite.full_acid import merge as merging
from compactor.rewrite.full_acid.merge import MergeRun, RowSorter, SortKey, merge_runs
from tests.support.acid_files import FIRST_FILE, TYPES, Key, dense, like, write_file
from tests.support.sizes import sized
from tests.support.watching import names_in

KEYS = st.tuples(st.integers(1, 3), st.sampled_from([FIRST_FILE, FIRST_FILE | 1]), st.integers(0, 9))
ROWS = sized(short=400, whole=1500)


@contextmanager
def pieces(folder: Path, runs: Sequence[Sequence[Key]]) -> Iterator[list[MergeRun]]:
    with ExitStack() as stack:
        found = []
        for number, keys in enumerate(runs):
            source = stack.enter_context(LocalSource(write_file(folder / f"run{number}", keys)))
            piece = Piece(source=source, tail=read_tail(source), stripe_index=0)
            found.append(MergeRun(pieces=[piece], is_sorted=list(keys) == sorted(keys)))
        yield found


def read(path: Path) -> list[Key]:
    table = po.ORCFile(str(path)).read()
    return list(
        zip(
            *(table[name].to_pylist() for name in ("originalTransaction", "bucket", "rowId")),
            strict=True,
        )
    )


@given(st.lists(KEYS, unique=True, min_size=1, max_size=30), st.lists(st.integers(0, 3), min_size=30, max_size=30))
@settings(max_examples=25)
def test_runs_in_any_order_come_out_sorted(
    tmp_path_factory: pytest.TempPathFactory, keys: list[Key], where: list[int]
) -> None:
    """Unsorted runs are sorted first."""
    folder = tmp_path_factory.mktemp("merge")
    runs = [[k for k, w in zip(keys, where, strict=False) if w == number] for number in range(4)]
    with pieces(folder, [run for run in runs if run]) as found:
        tail = merge_runs(found, str(folder / "out"), like=like(), types=TYPES)
    assert tail.rows == len(keys)
    assert read(folder / "out") == sorted(keys)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decodes 16 rows at a time, and holds a few of these batches for sorting."""
    monkeypatch.setattr(stripe_view, "BATCH_ROWS", 16)
    monkeypatch.setattr(merging, "RUN_BYTES", 1000)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("is_sorted", [True, False])
def test_runs_longer_than_a_batch(tmp_path: Path, is_sorted: bool) -> None:
    runs = [
        dense(2, 50),
        dense(1, 40),
        [k for k in dense(3, 60) if k[2] % 2],
        [k for k in dense(3, 60) if not k[2] % 2],
    ]
    wanted = sorted(itertools.chain(*runs))
    for seed, run in enumerate(runs):
        if not is_sorted:
            random.Random(seed).shuffle(run)
    with pieces(tmp_path, runs) as found:
        merge_runs(found, str(tmp_path / "out"), like=like(), types=TYPES)
    assert read(tmp_path / "out") == wanted
    assert names_in(tmp_path) == {"out", *(f"run{number}" for number in range(4))}


def test_a_run_that_is_not_sorted_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 2.4: memory is bounded by rows and their width, not by a file."""
    rows = sized(short=40_000, whole=400_000)
    monkeypatch.setattr(stripe_view, "BATCH_ROWS", rows // 40)
    monkeypatch.setattr(merging, "RUN_BYTES", rows * 5 // 2)
    batches: list[weakref.ref[pa.RecordBatch]] = []
    alive = [0]

    def watched(*args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in piece_batches(*args, **options):
            batches.append(weakref.ref(batch))
            yield batch
            del batch
            alive.append(sum(one() is not None for one in batches))

    monkeypatch.setattr(merging, "piece_batches", watched)
    keys = dense(1, rows)
    with pieces(tmp_path, [[*keys[1:], keys[0]]]) as found:
        tail = merge_runs(found, str(tmp_path / "out"), like=like(), types=TYPES)
    assert (tail.rows, len(batches)) == (rows, 40)
    assert max(alive) <= 4  # each is a third of a run


def test_rows_move_with_their_keys(tmp_path: Path) -> None:
    with pieces(tmp_path, [dense(2, 5, first=5), dense(2, 5)]) as found:
        merge_runs(found, str(tmp_path / "out"), like=like(), types=TYPES)
    rows = po.ORCFile(str(tmp_path / "out")).read().to_pylist()
    assert [r["row"]["a"] for r in rows] == [r["rowId"] for r in rows] == list(range(10))


def test_masked_rows_stay_out(tmp_path: Path) -> None:
    with pieces(tmp_path, [dense(2, 4), dense(1, 2)]) as found:
        keep = np.array([True, False, True, False])
        masked = found[0].pieces[0]._replace(keep=keep)
        merge_runs(
            [MergeRun(pieces=[masked], is_sorted=True), found[1]], str(tmp_path / "out"), like=like(), types=TYPES
        )
    assert read(tmp_path / "out") == [*dense(1, 2), (2, FIRST_FILE, 0), (2, FIRST_FILE, 2)]


@pytest.mark.parametrize("bounds", ["default", "small"])
def test_a_key_that_occurs_twice_is_refused(tmp_path: Path, request: pytest.FixtureRequest, bounds: str) -> None:
    """PROTOCOL 1.7: it is unknown which row a later delete means."""
    if bounds == "small":
        request.getfixturevalue("small")
    runs = [dense(1, 50), [*reversed(dense(2, 30)), *dense(1, 1, first=40)]]
    said = rf"occurs twice .* \(writeid 1, bucketid {FIRST_FILE}, rowid 40\)"
    with pieces(tmp_path, runs) as found, pytest.raises(NotLossless, match=said):
        merge_runs(found, str(tmp_path / "out"), like=like(), types=TYPES)
    assert not (tmp_path / "out").exists()


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
