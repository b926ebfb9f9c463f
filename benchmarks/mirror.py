"""The cost of a mirror beside ``cat`` and fsync, of a small commit, and its memory: ``python benchmarks/mirror.py [rows]``.

A table of one file after a major compaction gets its data file, in turns with a copy by ``cat``; both are made durable. Then
passes follow small appends. Memory is that of the first pass of a new mirror, at these rows and at four times as many.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pyiceberg.table import Table as IcebergTable

from benchmarks.parts.programs import cheapest, fill, make_table, opened, peak_of, stream
from benchmarks.parts.report import Row, as_text, disk_of, machine_facts, progress, write_results
from compactor.mirror.catalogs import open_catalog
from compactor.mirror.data_files import write_data_file
from compactor.mirror.mirrored_tables import NewMirror, add_mirror, run_mirrors
from compactor.site.site import Site
from compactor.tables.reading.scan_planning import ScanRequest, plan_scan
from compactor.tables.store import Store, named_table
from compactor.tables.transactions.transaction_block import transaction

TIMES = 5
COMMITS = 15
COPY_BAR, COMMIT_BAR, MEMORY_BAR = 1.2, 0.15, 1.2
ROWS = 40_000_000  #: some 1 GB


def site_with_lake(site: Site, folder: Path) -> Site:
    """Returns the site with a catalog in SQLite."""
    folder.mkdir(exist_ok=True)
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    return replace(site, catalogs={"lake": lake})


def compare_with_cat(store: Store, folder: Path, schema: IcebergTable) -> Row:
    table = named_table(store.site, "b.t")
    target, copied = folder / "detached.orc", folder / "copied"
    with transaction(store.site) as txn:
        plan = plan_scan(txn, table, ScanRequest(timestamps="parts"))
        (task,) = plan.tasks
        (source,) = task.inserts

        def detach() -> None:
            target.unlink(missing_ok=True)
            write_data_file(plan, task, source, schema=schema.schema(), target=str(target), storage=store.site.storage)
            assert not store.site.storage.sync([str(target)])

        costs = cheapest({"detach": detach, "cat": lambda: _cat(Path(task.paths[0]), copied)}, TIMES)
    megabytes = target.stat().st_size / 1e6
    target.unlink()
    copied.unlink()
    return Row(
        work=f"a data file of {megabytes:,.0f} MB beside cat and fsync",
        bar=COPY_BAR,
        measured=costs["detach"].wall / costs["cat"].wall,
        details={"s": costs["detach"].wall, "s of cat": costs["cat"].wall, "s of processors": costs["detach"].used},
    )


def _cat(source: Path, target: Path) -> None:
    with open(target, "wb") as file:
        subprocess.run(["cat", str(source)], stdout=file, check=True)
        os.fsync(file.fileno())


def time_small_commits(store: Store, site: Site) -> Row:
    seconds = []
    for _ in range(COMMITS):
        store.load_table("b.t").append(stream(1000))
        start = time.perf_counter()
        (outcome,) = run_mirrors(site, ["b.t"])
        seconds.append(time.perf_counter() - start)
        assert outcome.result is not None, outcome.error
    return Row(
        work="a pass over a small commit: s, median",
        bar=COMMIT_BAR,
        measured=statistics.median(seconds),
        details={"s at most": max(seconds)},
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    peaks = []
    with tempfile.TemporaryDirectory() as name, opened(Path(name)) as store:
        folder = Path(name)
        site = site_with_lake(store.site, folder / "lake")
        for table, size in (("t", count), ("large", 4 * count)):
            progress(f"writing and compacting {size} rows")
            make_table(store, folder, table)
            fill(store, table, size)
            add_mirror(site, NewMirror(table=f"b.{table}", catalog="lake"))
            progress("the first pass")
            peaks.append(peak_of(folder, "mirror", table, size) / 1e6)
        progress("beside cat")
        rows = [
            compare_with_cat(store, folder, open_catalog(site, "lake").load_table("b.t")),
            time_small_commits(store, site),
            Row(
                work="memory of the first pass: four times the rows beside once",
                bar=MEMORY_BAR,
                measured=peaks[1] / peaks[0],
                details={"MB": peaks[1], f"MB at {count} rows": peaks[0]},
            ),
        ]
        facts = machine_facts() | {"rows": str(count), "disk": disk_of(folder)}
    sys.stdout.write("\n" + as_text(rows, facts, []) + "\n")
    write_results(rows, facts, [], name="mirror")


if __name__ == "__main__":
    main()
