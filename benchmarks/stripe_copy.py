"""The speed of copying stripes, as a ratio to ``cat`` of the same bytes: ``python benchmarks/stripe_copy.py [rows]``.

Writes eight ACID deltas, copies all their stripes into one file, concatenates the same files with ``cat`` and decodes
and encodes them once for comparison. Every measured file is new and made durable, so that both sides do the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from compactor.orc.assembler import Assembler
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSink, LocalSource
from compactor.orc.pieces import Piece
from compactor.orc.reencode import reencode

FILES = 8


def write_delta(path: Path, write_id: int, rows: int) -> None:
    """Writes insert events with numbers and texts that compress about as well as real ones."""
    random = np.random.default_rng(write_id)
    row = pa.StructArray.from_arrays(
        [
            pa.array(np.arange(rows)),
            pa.array(random.integers(0, 1_000_000, rows)),
            pa.array([f"name-{i % 5000}" for i in range(rows)]),
            pa.array(random.random(rows)),
        ],
        names=["id", "k", "name", "f"],
    )
    table = pa.table(
        {
            "operation": pa.array(np.zeros(rows, np.int32)),
            "originalTransaction": pa.array(np.full(rows, write_id)),
            "bucket": pa.array(np.full(rows, 536870912, np.int32)),
            "rowId": pa.array(np.arange(rows)),
            "currentTransaction": pa.array(np.full(rows, write_id)),
            "row": row,
        }
    )
    po.write_table(table, str(path), compression="zlib")


def copy(paths: list[Path], target: Path) -> None:
    sources = [LocalSource(path) for path in paths]
    tails = [read_tail(source) for source in sources]
    assembler = Assembler(LocalSink(target), like=tails[0])
    for source, tail in zip(sources, tails, strict=True):
        assembler.append_file(source, tail)
    assembler.close({"hive.acid.version": b"2"})


def cat(paths: list[Path], target: Path) -> None:
    with open(target, "wb") as file:
        subprocess.run(["cat", *paths], stdout=file, check=True)
        os.fsync(file.fileno())


def encode(paths: list[Path], target: Path) -> None:
    sources = [LocalSource(path) for path in paths]
    tails = [read_tail(source) for source in sources]
    pieces = [
        Piece(source=source, tail=tail, stripe_index=number)
        for source, tail in zip(sources, tails, strict=True)
        for number in range(len(tail.stripes))
    ]
    reencode(pieces, target, like=tails[0], types=tails[0].types)


def seconds(work: Callable[[list[Path], Path], None], paths: list[Path], target: Path) -> float:
    best = float("inf")
    for _ in range(3):
        target.unlink(missing_ok=True)
        start = time.perf_counter()
        work(paths, target)
        best = min(best, time.perf_counter() - start)
    return best


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 250_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [folder / f"delta_{number}" for number in range(FILES)]
        for number, path in enumerate(paths):
            write_delta(path, number + 1, rows)
        size = sum(path.stat().st_size for path in paths)
        times = {work.__name__: seconds(work, paths, folder / work.__name__) for work in (copy, cat, encode)}
    sys.stdout.write(f"{FILES} files, {FILES * rows} rows, {size / 1e6:.0f} MB\n")
    for label, value in times.items():
        sys.stdout.write(f"{label:8}{value:8.3f} s   {value / times['cat']:6.2f} x cat\n")


if __name__ == "__main__":
    main()
