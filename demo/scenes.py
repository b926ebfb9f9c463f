"""The demo's other scenes: a table that only grows, an open report, a truncated file that is repaired, continuous writes."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from compactor.compaction.queue_entry import Entity
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables import Table as StoreTable
from demo.demo_folder import DemoPaths
from demo.tables import DATABASE

CLICKS, DAMAGED, LIVE = (Entity(database=DATABASE, table=name) for name in ("clicks", "damaged", "live"))
INSERTS = 12  #: above the threshold of 10 deltas
CLICKS_AT_ONCE, _TOKEN = 30_000, 320  #: rows of an insert, and the length of a text that hardly compresses
_PAUSE_SECONDS = 2.0  #: between two writes into ``LIVE``
#: The demo requests its compactions by hand, so that it decides when they fail.
_BY_HAND = {"no_auto_compaction": "true"}
#: Each delta is more than a tenth of its base, so by size every pass would request another compaction.
_BY_NUMBER = {"compactorthreshold.hive.compactor.delta.pct.threshold": "1000"}


def load(site: Site) -> None:
    """Creates and fills the tables in an existing database."""
    store = Store(site)
    clicks = store.create_table(str(CLICKS), {"id": "bigint", "token": "string"})
    for number in range(INSERTS):
        clicks.append(_clicks(number))
    for entity, properties in ((DAMAGED, _BY_HAND), (LIVE, _BY_NUMBER)):
        table = store.create_table(str(entity), {"id": "bigint", "note": "string"}, properties=properties)
        for number in range(INSERTS):
            table.append(_note(number))


def _clicks(number: int) -> pa.Table:
    letters = np.random.default_rng(number).integers(33, 127, CLICKS_AT_ONCE * _TOKEN, dtype=np.uint8)
    ends = np.arange(CLICKS_AT_ONCE + 1, dtype=np.int32) * _TOKEN
    tokens = pa.StringArray.from_buffers(CLICKS_AT_ONCE, pa.py_buffer(ends), pa.py_buffer(letters))
    first = number * CLICKS_AT_ONCE
    return pa.table({"id": np.arange(first, first + CLICKS_AT_ONCE, dtype=np.int64), "token": tokens})


def _note(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "note": [f"write {number}"]})


@contextmanager
def leave_open(site: Site) -> Iterator[None]:
    """Reads the first rows of ``CLICKS``, and stays open until the block ends, so the cleaner must wait."""
    reader = Store(site).load_table(str(CLICKS)).scan().to_arrow_batch_reader()
    try:
        reader.read_next_batch()
        yield
    finally:
        reader.close()


@contextmanager
def keep_writing(place: DemoPaths) -> Iterator[None]:
    """Writes a row into ``LIVE`` every few seconds until the block ends.

    Raises:
        CompactorError: a write failed.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="writes") as pool:
        writing: Future[None] = pool.submit(_write, place, stop)
        try:
            yield
        finally:
            stop.set()
        writing.result()


def _write(place: DemoPaths, stop: threading.Event) -> None:
    with place.site() as site:
        table: StoreTable = Store(site).load_table(str(LIVE))
        number = INSERTS
        while not stop.wait(_PAUSE_SECONDS):
            table.append(_note(number))
            number += 1


def count_written(site: Site) -> int:
    """Returns the number of rows in ``LIVE``: each transaction with a write ID has written one."""
    return site.metastore.write_ids.next(LIVE.database, LIVE.table) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A truncated file of ``DAMAGED``, and its copy."""

    file: Path
    kept: Path

    @classmethod
    def truncate(cls, site: Site, folder: Path) -> Damage:
        """Copies one of the table's files to ``folder``, and cuts the original in half."""
        location = Path(site.target(DAMAGED).location.removeprefix("file:"))
        file = min(location.glob("delta_*/bucket_*"))
        kept = folder / file.name
        shutil.copy2(file, kept)
        os.truncate(file, file.stat().st_size // 2)
        return cls(file=file, kept=kept)

    def mend(self) -> None:
        """Replaces the file by its copy."""
        copy = self.file.with_name(f".{self.file.name}")
        shutil.copy2(self.kept, copy)
        copy.replace(self.file)
