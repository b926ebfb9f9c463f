"""Appends to an ACID table, as a ratio to ``pyarrow.orc.write_table`` of the same rows with the same codec:
``python benchmarks/table_append.py [rows]``.

Both sides write the same Arrow table to the same disk, in turns, five times, durably: metastore, staging, checksums and
commit are part of an append.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa
import pyarrow.orc as po

from benchmarks.parts.programs import cheapest, make_table, opened, stream
from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results

TIMES = 5
BAR = 1.5


def write_plainly(rows: pa.Table, path: Path) -> None:
    """Writes one ORC file and makes it durable."""
    po.write_table(rows, path, compression="zlib")
    with path.open("rb") as file:
        os.fsync(file.fileno())


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    with tempfile.TemporaryDirectory() as name, opened(Path(name)) as store:
        rows = stream(count).read_all()
        make_table(store, Path(name), "t")
        table = store.load_table("b.t")
        table.append(rows.slice(0, 1000))  # imports
        progress(f"appending {count} rows, {TIMES} times")
        costs = cheapest(
            {"append": lambda: table.append(rows), "orc": lambda: write_plainly(rows, Path(name) / "plain.orc")}, TIMES
        )
        append, orc = costs["append"], costs["orc"]
        row = Row(
            work="append: times pyarrow.orc.write_table",
            bar=BAR,
            measured=append.wall / orc.wall,
            details={"s": append.wall, "s of pyarrow.orc": orc.wall, "times its processors": append.used / orc.used},
        )
        facts = machine_facts() | {"rows": str(count)}
        sys.stdout.write("\n" + as_text([row], facts, []) + "\n")
        write_results([row], facts, [], name="table_append")


if __name__ == "__main__":
    main()
