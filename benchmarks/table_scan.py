"""Scans of an ACID table after a major compaction, as ratios to ``pyarrow.orc`` over the same rows as plain ORC, and the
peak memory of a scan of a table and of one eight times as large: ``python benchmarks/table_scan.py [rows] [--memory]``.

Both sides read the same rows into one Arrow table, in turns, five times; two columns and all. The ratios are of the best
times of the processors, which other programs disturb less, and of the clock. ``--memory`` scans batch by batch, each size in
a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.orc as po

from compactor.database.engine import open_database
from compactor.deployment import configure, open_site
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.schema import create
from compactor.rewrite.run.runner import InProcessRunner
from compactor.service.batches.assembly import claimable
from compactor.service.batches.driver import run_entries
from compactor.service.requests.request import request_compaction
from compactor.service.site import Site
from compactor.state import store as state
from compactor.tables.store import Store

TIMES = 5
PART = 500_000  #: rows that are made at a time
COLUMNS = {"id": "bigint", "k": "int", "amount": "double", "code": "string", "text": "string", "day": "date"}
SELECTIONS: dict[str, list[str] | None] = {"two columns": ["id", "amount"], "all columns": None}


def parts(rows: int) -> Iterator[pa.RecordBatch]:
    random = np.random.default_rng(1)
    texts = pa.array([f"some text {number} of a row" for number in range(7919)])
    for first in range(0, rows, PART):
        count = min(PART, rows - first)
        yield pa.record_batch(
            {
                "id": np.arange(first, first + count),
                "k": random.integers(0, 1000, count).astype(np.int32),
                "amount": random.random(count) * 1000,
                "code": pa.array(random.integers(0, 5000, count)).cast(pa.string()),
                "text": texts.take(pa.array(random.integers(0, len(texts), count))),
                "day": pa.array(random.integers(18000, 20000, count).astype(np.int32)).cast(pa.date32()),
            }
        )


def make(site: Site, folder: Path, name: str, rows: int) -> None:
    """Makes the table ``b.<name>`` and compacts it."""
    columns = [Column(name=column, type=kind) for column, kind in COLUMNS.items()]
    location = folder / name
    location.mkdir()
    new = NewTable("b", name, str(location), columns, parameters={"transactional": "true"})
    site.metastore.embedded_catalog.create_table(new)
    table = Store(site).load_table(f"b.{name}")
    schema = next(parts(1)).schema
    for _ in range(2):
        table.append(pa.RecordBatchReader.from_batches(schema, parts(rows // 2)))
    request_compaction(site, table=f"b.{name}", type="major")
    run_entries(site, claimable(site), InProcessRunner())


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Returns wall and processor seconds."""
    used, start = os.times(), time.perf_counter()
    work()
    wall, now = time.perf_counter() - start, os.times()
    return wall, sum(now[:2]) - sum(used[:2])


def compare(store: Store, plain: Path) -> None:
    table = store.load_table("b.t")
    for label, selected in SELECTIONS.items():
        works: dict[str, Callable[[], object]] = {
            "scan": lambda selected=selected: table.scan(selected_fields=selected).to_arrow(),
            "pyarrow.orc": lambda selected=selected: po.ORCFile(plain).read(columns=selected),
        }
        times: dict[str, list[tuple[float, float]]] = {side: [] for side in works}
        for _ in range(TIMES):
            for side, work in works.items():
                times[side].append(measured(work))
        (wall, used), (wall_of_orc, used_of_orc) = (
            [min(column) for column in zip(*times[side], strict=True)] for side in works
        )
        sys.stdout.write(
            f"{label:12} scan {wall:6.3f} s, {used:6.3f} s of processors; x pyarrow.orc: {wall / wall_of_orc:5.2f} wall, "
            f"{used / used_of_orc:5.2f} processors (bar 1.3)\n"
        )


def peak(url: str, name: str) -> int:
    """Returns the peak memory, in bytes, of a process that scans a table batch by batch."""
    environment = {**os.environ, "COMPACTOR_METASTORE_URL": url}
    answer = subprocess.run(
        [sys.executable, __file__, "--scan", name], env=environment, capture_output=True, check=True
    )
    return int(answer.stdout)


def scan(name: str) -> None:
    from compactor.tables import open_metastore

    with open_metastore() as store:
        for _ in store.load_table(f"b.{name}").scan().to_arrow_batch_reader():
            pass
    status = Path("/proc/self/status").read_text().splitlines()
    sys.stdout.write(str(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))))


def main() -> None:
    if "--scan" in sys.argv:
        scan(sys.argv[-1])
        return
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    rows = numbers[0] if numbers else 4_000_000
    with tempfile.TemporaryDirectory() as name:
        folder, url = Path(name), f"sqlite:///{name}/metastore.db"
        environment = {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_WAREHOUSE": name}
        database = open_database(url)
        create.create(database)
        state.upgrade(database)
        database.close()
        with open_site(configure(environment=environment)) as site:
            site.metastore.embedded_catalog.create_database("b", name)
            make(site, folder, "t", rows)
            plain = folder / "plain.orc"
            po.write_table(Store(site).load_table("b.t").scan().to_arrow(), plain, compression="zlib")
            compare(Store(site), plain)
            if "--memory" in sys.argv:
                make(site, folder, "large", 8 * rows)
                small, large = peak(url, "t"), peak(url, "large")
                sys.stdout.write(
                    f"peak memory  {small / 1e6:.0f} MB for {rows} rows, {large / 1e6:.0f} MB for {8 * rows}: "
                    f"{large / small:.2f} x (bar 1.2)\n"
                )


if __name__ == "__main__":
    main()
