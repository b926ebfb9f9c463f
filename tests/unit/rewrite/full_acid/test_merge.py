"""Merging runs, compared with ``sorted()``."""

from __future__ import annotations

import itertools
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
from compactor.rewrite.full_acid.merge import MergeRun, merge_runs
from tests.support.acid_files import FIRST_FILE, TYPES, Key, dense, like, write_file
from tests.support.sizes import sized
from tests.support.watching import names_in

KEYS = st.tuples(st.integers(1, 3), st.sampled_from([FIRST_FILE, FIRST_FILE | 1]), st.integers(0, 9))


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
