"""Scenes beside the demo's main table: one that only grows and is copied, a report that is left open, a file that is cut
short and put back, and writes that go on."""

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

from compactor.compaction.entry import Entity
from compactor.site.site import Site
from compactor.tables import Store
from compactor.tables import Table as StoreTable
from demo.demo_folder import DemoPaths
from demo.tables import DATABASE

CLICKS, DAMAGED, LIVE = (Entity(database=DATABASE, table=name) for name in ("clicks", "damaged", "live"))
INSERTS = 12  #: above the threshold of 10 deltas
CLICKS_AT_ONCE, _TOKEN = 30_000, 320  #: rows of an insert, and the length of a text that hardly compresses
_PAUSE_SECONDS = 2.0  #: between two writes into ``LIVE``
#: Requests for it are made by hand, so that the demo decides when it fails and when no longer.
_BY_HAND = {"no_auto_compaction": "true"}
#: Each delta is more than a tenth of its base, so that by size every pass would ask for it again.
_BY_NUMBER = {"compactorthreshold.hive.compactor.delta.pct.threshold": "1000"}


def load(site: Site) -> None:
    """Creates and fills the tables, in a database that exists."""
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
def left_open(site: Site) -> Iterator[None]:
    """Reads the first rows of ``CLICKS`` and, until the block ends, neither goes on nor closes: the cleaner has to wait."""
    reader = Store(site).load_table(str(CLICKS)).scan().to_arrow_batch_reader()
    try:
        reader.read_next_batch()
        yield
    finally:
        reader.close()


@contextmanager
def writes(place: DemoPaths) -> Iterator[None]:
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


def written(site: Site) -> int:
    """Returns the number of rows that were written into ``LIVE``, one by each transaction that had a write ID."""
    return site.metastore.write_ids.next(LIVE.database, LIVE.table) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file of ``DAMAGED`` that is cut short, and its copy."""

    file: Path
    kept: Path

    @classmethod
    def done(cls, site: Site, folder: Path) -> Damage:
        """Keeps one of the table's files in ``folder``, and cuts it in half where it lies."""
        location = Path(site.target(DAMAGED).location.removeprefix("file:"))
        file = min(location.glob("delta_*/bucket_*"))
        kept = folder / file.name
        shutil.copy2(file, kept)
        os.truncate(file, file.stat().st_size // 2)
        return cls(file=file, kept=kept)

    def mend(self) -> None:
        """Puts the copy in the file's place."""
        beside = self.file.with_name(f".{self.file.name}")
        shutil.copy2(self.kept, beside)
        beside.replace(self.file)
