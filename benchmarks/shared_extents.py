"""Taking stripes over on a file system that shares blocks, as a ratio to ``cat`` of the same bytes:
``python benchmarks/shared_extents.py [megabytes]`` as root, which mounts an XFS from a file.

Writes eight ACID deltas, and then, each five times, one file of all their stripes as a compaction writes it, the same with
every byte copied, and one with ``cat``. Every file is new and made durable, so that all sides do the same. The ratio is of
the best times; that of the processors' time follows, which other programs disturb less.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.report import Row, conclude
from compactor.orc.assembler import Assembler
from compactor.orc.format.tail import read_tail
from compactor.orc.io.source import LocalSource
from compactor.rows.new_file import NewFileTarget
from compactor.rows.remote_source import LOCAL
from tests.support.reflinks import xfs
from tests.support.wide_stripes import write_delta

FILES = 8
TIMES = 5
STRIPE_BYTES = 16 << 20


def joined(paths: list[Path], target: Path, *, sees_all: bool) -> None:
    place = NewFileTarget(storage=LOCAL, home=str(target.parent), path=str(target), sees_all=sees_all)
    sources = [LocalSource(path) for path in paths]
    tails = [read_tail(source) for source in sources]
    with place.sink() as sink, Assembler(sink, like=tails[0], checksum=True) as assembler:
        for source, tail in zip(sources, tails, strict=True):
            assembler.append_file(source, tail)
        assembler.close({"hive.acid.version": b"2"})
    _sync(target)


def cat(paths: list[Path], target: Path) -> None:
    with target.open("wb") as file:
        subprocess.run(["cat", *paths], stdout=file, check=True)
    _sync(target)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def measured(work: Callable[[list[Path], Path], None], paths: list[Path], target: Path) -> tuple[float, float]:
    """Returns wall and processor seconds."""
    target.unlink(missing_ok=True)
    used, start = os.times(), time.perf_counter()
    work(paths, target)
    wall, now = time.perf_counter() - start, os.times()
    return wall, sum(now[:4]) - sum(used[:4])


def main() -> None:
    size = (int(sys.argv[1]) if len(sys.argv) > 1 else 1000) * 1_000_000
    works: dict[str, Callable[[list[Path], Path], None]] = {
        "taken over": partial(joined, sees_all=False),
        "copied": partial(joined, sees_all=True),
        "cat": cat,
    }
    with tempfile.TemporaryDirectory() as name, xfs(Path(name), 3 * size + 500_000_000) as folder:
        paths = [folder / f"delta_{number}" for number in range(FILES)]
        for number, path in enumerate(paths):
            write_delta(path, number + 1, size // FILES // STRIPE_BYTES, STRIPE_BYTES)
            _sync(path)
        times: dict[str, list[tuple[float, float]]] = {label: [] for label in works}
        for _ in range(TIMES):
            for label, work in works.items():
                times[label].append(measured(work, paths, folder / "out"))
        total = sum(path.stat().st_size for path in paths)
    best = {label: [min(column) for column in zip(*rows, strict=True)] for label, rows in times.items()}
    sys.stdout.write(
        f"{FILES} files, {total / 1e6:.0f} MB, XFS\n{'':12}{'wall':>9}{'x cat':>8}{'cpu':>9}{'x cat':>8}\n"
    )
    for label, (wall, used) in best.items():
        wall_of_cat, used_of_cat = best["cat"]
        sys.stdout.write(
            f"{label:12}{wall:8.3f}s{wall / wall_of_cat:8.2f}{used:8.3f}s{used / max(used_of_cat, 0.01):8.2f}\n"
        )
    wall, wall_of_cat = best["taken over"][0], best["cat"][0]
    work = f"XFS, {total / 1e6:.0f} MB: taking over to cat"
    details = {"s": wall, "s of cat": wall_of_cat, "s copied": best["copied"][0]}
    conclude([Row(work=work, bar=0.3, measured=wall / wall_of_cat, details=details)], "shared_extents")


if __name__ == "__main__":
    main()
