"""Deletes one row in a hundred of eight million, scattered over the table, beside a Hive 4.1 that is warm:
``python benchmarks/table_delete.py [rows] [pairs]``.

Both work on the same database of PostgreSQL and on copies of the same files, in turns, each on a partition of its own.
``LIVE=0`` leaves Hive out, and then nothing is compared.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts import contents
from benchmarks.parts.lab import Lab, files, warm
from benchmarks.parts.lab import opened as lab_on
from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results
from compactor.tables.store import Store
from tests.support import live_hive
from tests.support.hive4 import HIVE_4_1

BAR = 5.0
DELTAS = 4
WHERE = "k < 10000"  #: of a million values, each as frequent as every other


def by_us(lab: Lab) -> float:
    partition = lab.take("facts").partition("=")[2]
    return _timed(lambda: Store(lab.site).load_table("default.facts").delete(f"p = '{partition}' AND {WHERE}"))


def by_hive(lab: Lab, hive: live_hive.Hive) -> float:
    partition = lab.take("facts").partition("=")[2]
    return _timed(lambda: hive.sql(f"delete from facts where p = '{partition}' and {WHERE}"))


def _timed(work: Callable[[], object]) -> float:
    os.sync()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def left(lab: Lab, partition: str) -> int:
    return Store(lab.site).load_table("default.facts").scan(f"p = '{partition}'").count()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000_000
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if os.environ.get("LIVE") == "0":
        sys.stdout.write("deleting beside Hive: LIVE=0\n")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place, server = stack.enter_context(live_hive.placed(HIVE_4_1, "-Xmx2g"))
        lab = stack.enter_context(lab_on(folder, server.url.format(name=HIVE_4_1.name)))
        progress(f"writing {DELTAS} deltas of {count // DELTAS} rows")
        model = lab.table("facts", contents.ROWS, [contents.rows(count // DELTAS)] * DELTAS, 2 * (times + 1))
        warm(files(model))
        progress("starting Hive")
        hive = stack.enter_context(live_hive.running(place))
        hive.sql("show databases")
        pairs = []
        for pair in range(times + 1):
            progress(f"pair {pair} of {times}; the first warms both up")
            pairs.append((by_us(lab), by_hive(lab, hive)))
        ours, theirs = left(lab, "000000"), left(lab, "000001")
        assert ours == theirs < count, (ours, theirs)
        row = Row(
            work=f"delete of 1 % of {count} rows: faster than a warm Hive 4.1",
            bar=BAR,
            measured=median(b / a for a, b in pairs[1:]),
            more=True,
            details={"s": median(a for a, _ in pairs[1:]), "s of Hive": median(b for _, b in pairs[1:])},
        )
        facts = machine_facts() | {"rows": str(count)}
        sys.stdout.write("\n" + as_text([row], facts, []) + "\n")
        write_results([row], facts, [], name="table_delete")


if __name__ == "__main__":
    main()
