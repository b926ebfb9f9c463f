"""Merges changes of one row in a hundred of eight million, scattered over the table, beside a Hive 4.1 that is warm:
``python benchmarks/table_merge.py [rows] [pairs]``.

The same MERGE in SQL, on Spark with two cores and in Hive, on one database of PostgreSQL and on copies of the same files, in
turns, each on a partition of its own. ``LIVE=0`` leaves Hive out, and then nothing is compared.
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

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts import contents
from benchmarks.parts.lab import Lab, files, warm
from benchmarks.parts.lab import opened as lab_on
from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results
from compactor.spark_tables import sql
from compactor.tables.store import Store
from tests.support import live_hive
from tests.support.beside import TRANSACTIONAL
from tests.support.hive4 import HIVE_4_1
from tests.support.spark_sessions import local_session

BAR = 5.0
DELTAS = 4
KEYS = 1_000_000  #: values of ``k``, each as frequent as every other
CHANGED, ADDED = KEYS // 100, KEYS // 1000
STATEMENT = """MERGE INTO facts AS t USING changes AS s ON t.p = '{p}' AND t.k = s.k
WHEN MATCHED THEN UPDATE SET name = s.name, f = s.f
WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.k, s.name, s.f, s.note, '{p}')"""


def changes() -> pa.Table:
    """Returns rows of which one in eleven has a key that no row of the table has."""
    keys = np.concatenate([np.arange(0, KEYS, KEYS // CHANGED), np.arange(KEYS, KEYS + ADDED)]).astype(np.int32)
    names = [f"changed-{key}" for key in keys]
    return pa.table({"id": -1 - np.arange(len(keys)), "k": keys, "name": names, "f": keys / 7, "note": names})


def timed(lab: Lab, run: Callable[[str], object]) -> float:
    statement = STATEMENT.format(p=lab.take("facts").partition("=")[2])
    os.sync()
    start = time.perf_counter()
    run(statement)
    return time.perf_counter() - start


def left(lab: Lab, partition: str) -> tuple[int, int]:
    """Returns the number of rows, and of those that were updated or added."""
    table = Store(lab.site).load_table("default.facts")
    return table.scan(f"p = '{partition}'").count(), table.scan(f"p = '{partition}' and name like 'changed-%'").count()


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000_000
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if os.environ.get("LIVE") == "0":
        sys.stdout.write("merging beside Hive: LIVE=0\n")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place, server = stack.enter_context(live_hive.placed(HIVE_4_1, "-Xmx2g"))
        url = server.url.format(name=HIVE_4_1.name)
        lab = stack.enter_context(lab_on(folder, url))
        progress(f"writing {DELTAS} deltas of {count // DELTAS} rows")
        model = lab.table("facts", contents.ROWS, [contents.rows(count // DELTAS)] * DELTAS, 2 * (times + 1))
        warm(files(model))
        progress("starting Hive and Spark")
        hive = stack.enter_context(live_hive.running(place))
        columns = ", ".join(f"{one.name} {one.type}" for one in contents.ROWS)
        hive.sql(f"create table changes ({columns}) {TRANSACTIONAL}")
        Store(lab.site).load_table("default.changes").append(changes())
        config = folder / "compactor.toml"
        config.write_text(f'[metastore.default]\nurl = "{url}"\nmode = "clean"\n')
        spark = stack.enter_context(local_session(folder, conf={"spark.driver.memory": "2g"}))
        pairs = []
        for pair in range(times + 1):
            progress(f"pair {pair} of {times}; the first warms both up")
            ours = timed(lab, lambda text: sql(spark, text, config=str(config)).collect())
            pairs.append((ours, timed(lab, hive.sql)))
            progress(f"{pairs[-1][0]:.1f} s and {pairs[-1][1]:.1f} s")
        found, wanted = left(lab, "000000"), left(lab, "000001")
        assert found == wanted, (found, wanted)
        assert found[0] >= count + ADDED, found  # a key of the table may have come to no row
        row = Row(
            work=f"merge of 1 % of {count} rows: faster than a warm Hive 4.1",
            bar=BAR,
            measured=median(b / a for a, b in pairs[1:]),
            more=True,
            details={"s": median(a for a, _ in pairs[1:]), "s of Hive": median(b for _, b in pairs[1:])},
        )
        facts = machine_facts() | {"rows": str(count), "rows changed": str(found[1])}
        sys.stdout.write("\n" + as_text([row], facts, []) + "\n")
        write_results([row], facts, [], name="table_merge")


if __name__ == "__main__":
    main()
