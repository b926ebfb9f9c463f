"""Scans of an ACID table after a major compaction, as ratios to ``pyarrow.orc`` over the same rows as plain ORC:
``python benchmarks/table_scan.py [rows]``.

Both sides read the same rows into one Arrow table, in turns, five times; two columns and all. The ratios are of the best
times by the clock and of the processors.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow.orc as po

from benchmarks.parts.programs import cheapest, fill, make_table, opened
from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results
from compactor.tables.store import Store

TIMES = 5
BAR = 1.3
SELECTIONS: dict[str, list[str] | None] = {"two columns": ["id", "amount"], "all columns": None}


def compare(store: Store, plain: Path) -> list[Row]:
    table = store.load_table("b.t")
    rows = []
    for label, selected in SELECTIONS.items():
        costs = cheapest(
            {
                "scan": lambda selected=selected: table.scan(selected_fields=selected).to_arrow(),
                "orc": lambda selected=selected: po.ORCFile(plain).read(columns=selected),
            },
            TIMES,
        )
        scan, orc = costs["scan"], costs["orc"]
        rows.append(
            Row(
                work=f"scan after a major, {label}: times pyarrow.orc",
                bar=BAR,
                measured=scan.wall / orc.wall,
                details={"s": scan.wall, "s of pyarrow.orc": orc.wall, "times its processors": scan.used / orc.used},
            )
        )
    return rows


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 4_000_000
    with tempfile.TemporaryDirectory() as name, opened(Path(name)) as store:
        progress(f"writing and compacting {count} rows")
        make_table(store, Path(name), "t")
        fill(store, "t", count)
        plain = Path(name) / "plain.orc"
        po.write_table(store.load_table("b.t").scan().to_arrow(), plain, compression="zlib")
        progress("scanning")
        rows, facts = compare(store, plain), machine_facts() | {"rows": str(count)}
        sys.stdout.write("\n" + as_text(rows, facts, []) + "\n")
        write_results(rows, facts, [], name="table_scan")


if __name__ == "__main__":
    main()
