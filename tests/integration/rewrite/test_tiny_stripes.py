"""Many deltas of a few rows: the most frequent work of compaction."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.mixtures import File, make_unit, rows_of, stripe_lengths, tail_of
from tests.support.units import execute

MEBIBYTE = 1 << 20


@pytest.mark.parametrize("deleted", [(), (1,)], ids=["inserts", "and deletes"])
def test_two_hundred_deltas_become_one_stripe(tmp_path: Path, deleted: tuple[int, ...]) -> None:
    """PROTOCOL 2: neighbours that are all small are re-encoded together, whether they keep all their rows or not."""
    files = [File(values=[(n, f"{n}"), (n, None)], deleted=deleted if n % 3 == 0 else ()) for n in range(200)]
    unit = make_unit(tmp_path, files, "a:int,b:string", small_stripe_bytes=MEBIBYTE)
    result = execute(unit)
    (output,) = result.outputs
    tail = tail_of(Path(output.path))
    gone = 67 * len(deleted)
    assert (len(tail.stripes), tail.rows) == (1, 400 - gone)
    assert (result.figures.stripes_encoded, result.figures.rows_deleted) == (200, gone)
    wanted = [row for file in files for place, row in enumerate(file.rows) if place not in file.deleted]
    assert rows_of(output.path) == wanted
    assert output.length < sum(sum(stripe_lengths(tmp_path, source)) for source in unit.inserts) / 10


def test_a_large_base_is_not_touched_by_them(tmp_path: Path) -> None:
    """DESIGN 4: move bytes, not rows."""
    files = [File(values=[(n, f"row {n * n}") for n in range(50_000)]), *([File()] * 20)]
    unit = make_unit(tmp_path, files, "a:int,b:string", small_stripe_bytes=10_000)
    figures = execute(unit).figures
    assert (figures.stripes_copied, figures.stripes_encoded) == (1, 20)
    assert figures.bytes_copied == sum(stripe_lengths(tmp_path, unit.inserts[0]))


@contextmanager
def files_open(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("small", [0, MEBIBYTE], ids=["copied", "re-encoded"])
def test_more_deltas_than_files_may_be_open(tmp_path: Path, small: int) -> None:
    """Every other stripe loses a row, so that copies and re-encoded stripes alternate."""
    files = [File(deleted=(2,) if n % 2 else ()) for n in range(300)]
    unit = make_unit(tmp_path, files, "a:int,b:string", small_stripe_bytes=small)
    with files_open(len(os.listdir("/proc/self/fd")) + 150):
        result = execute(unit)
    assert (result.figures.rows_out, result.figures.stripes_copied) == (750, 0 if small else 150)
    assert sorted(path.name for path in Path(result.outputs[0].path).parent.iterdir()) == ["rows"]
