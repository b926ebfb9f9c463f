"""Peak memory of programs that scan a table batch by batch, append a stream to it, and delete one row in a hundred, at 1 GB
and at 8 GB of rows in Arrow: ``python benchmarks/table_memory.py [rows of the smaller]``.

Each is a process of its own. Until a stripe is full (64 MB, some 4 million of these rows) memory grows with it; from there
on it is that of a few stripes, whatever the size of the table.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.programs import make_table, opened, peak_of
from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results

TIMES = 8
BAR = 1.2
STATEMENTS = ("append", "scan", "delete")  #: each on what the ones before have left


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000_000
    peaks: dict[str, list[float]] = {statement: [] for statement in STATEMENTS}
    with tempfile.TemporaryDirectory() as name, opened(Path(name)) as store:
        for size in (count, TIMES * count):
            make_table(store, Path(name), f"t{size}")
            for statement in STATEMENTS:
                progress(f"{statement}: {size} rows")
                peaks[statement].append(peak_of(Path(name), statement, f"t{size}", size) / 1e6)
            shutil.rmtree(Path(name) / f"t{size}")
    rows = [
        Row(
            work=f"memory of {statement}: {TIMES} times the rows beside once",
            bar=BAR,
            measured=large / small,
            details={"MB": large, f"MB at {count} rows": small},
        )
        for statement, (small, large) in peaks.items()
    ]
    facts = machine_facts() | {"rows": f"{count} and {TIMES * count}"}
    sys.stdout.write("\n" + as_text(rows, facts, []) + "\n")
    write_results(rows, facts, [], name="table_memory")


if __name__ == "__main__":
    main()
