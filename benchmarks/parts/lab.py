"""A metastore, a warehouse on disk, and tables that lose one partition to each measured compaction."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from compactor.batches.driver import run_entries
from compactor.metastore.catalog.values import Column
from compactor.metastore.metastore import open_metastore
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import Runner
from compactor.site.site import Site
from compactor.state import state_upgrade
from compactor.worker.ending import Outcome, Result
from tests.support.many import Write, make_table, site_of


@dataclass(slots=True, kw_only=True)
class Lab:
    """A site and its warehouse. ``taken`` counts the used partitions of each table."""

    site: Site
    warehouse: Path
    taken: dict[str, int] = field(default_factory=dict)

    def table(self, name: str, columns: Sequence[Column], writes: Sequence[Write], partitions: int) -> Path:
        """Makes a table and returns the directory with its files."""
        make_table(self.site.metastore, self.warehouse, partitions, columns=columns, writes=writes, name=name)
        return self.warehouse / f".{name}"

    def take(self, table: str) -> str:
        """Returns the name of a partition that is not yet compacted."""
        number = self.taken.get(table, 0)
        self.taken[table] = number + 1
        return f"p={number:06d}"

    def compact(self, table: str, kind: str, runner: Runner) -> Outcome:
        """Runs one compaction by Compactor, from claim to commit."""
        partition = self.take(table)
        (request,) = request_compaction(self.site, table=table, partition=partition, type=kind)
        assert request.entry_id is not None, request
        os.sync()
        (done,) = run_entries(self.site, [request.entry_id], runner).outcomes
        assert done.result is Result.COMPACTED, done
        shutil.rmtree(self.warehouse / table / partition)
        return done


@contextmanager
def opened(folder: Path, url: str) -> Iterator[Lab]:
    """Yields a lab on a database that has Hive's schema."""
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    with ExitStack() as stack:
        metastore = open_metastore("default", url)
        stack.callback(metastore.close)
        state = state_upgrade.init(url)
        stack.callback(state.close)
        yield Lab(site=site_of(metastore, state), warehouse=warehouse)


def files(model: Path) -> list[Path]:
    """Returns the data files of a table, inserts only."""
    return sorted(path for path in model.glob("delta_*/bucket_*"))


def cat(paths: Sequence[Path], target: Path) -> float:
    """Returns the seconds needed to concatenate files into a new one and make it durable."""
    os.sync()
    start = time.perf_counter()
    with target.open("wb") as file:
        subprocess.run(["cat", *paths], stdout=file, check=True)
        os.fsync(file.fileno())
    seconds = time.perf_counter() - start
    target.unlink()
    return seconds


def warm(paths: Sequence[Path]) -> None:
    """Reads the files into the cache."""
    subprocess.run(["cat", *paths], stdout=subprocess.DEVNULL, check=True)


def cold(paths: Sequence[Path]) -> None:
    """Drops the files from the cache."""
    os.sync()
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
