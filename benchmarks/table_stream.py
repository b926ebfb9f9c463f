"""Commits of a stream per second, and how many times as many they are as appends of the same rows:
``python benchmarks/table_stream.py [--commits 300] [--rows 10] [--database sqlite|postgresql] [--folder DIR]``.

Both sides write the same rows to the same disk, each commit durably, in turns. With ``--partitions N`` the rows of each
commit name one of N partitions, which costs a second database transaction.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa

from benchmarks.parts.programs import cheapest, make_table, opened, parts
from benchmarks.parts.report import Row, as_text, disk_of, machine_facts, progress, write_results
from compactor.metastore.catalog.values import Column
from compactor.tables.store import Store
from compactor.tables.table import Table
from tests.support import servers

TIMES, BAR = 3, 100.0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=300)
    parser.add_argument("--rows", type=int, default=10)
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("--database", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--folder", help="where the tables are made")
    return parser.parse_args()


def make_target(store: Store, folder: Path, name: str, partitions: int) -> Table:
    make_table(store, folder, name, keys=[Column(name="p", type="int")] if partitions else [])
    return store.load_table(f"b.{name}")


def endless(rows: int, partitions: int) -> Iterator[pa.Table]:
    """Yields the rows of one commit after the other."""
    every = pa.Table.from_batches([next(parts(100 * rows))])
    for number in count():
        some = every.slice(number % 100 * rows, rows)
        yield some.append_column("p", pa.array([number % partitions] * rows, pa.int32())) if partitions else some


def main() -> None:
    options = arguments()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        url = None
        if options.database == "postgresql":
            server = stack.enter_context(servers.postgres())
            url = server.make("bench", servers.hive_schema("postgresql", "4.0.0"))
        store = stack.enter_context(opened(folder, url))
        appended, streamed = (make_target(store, folder, name, options.partitions) for name in ("appended", "streamed"))
        rows = endless(options.rows, options.partitions)
        appends = max(options.commits // 5, 1)

        def append() -> None:
            for _ in range(appends):
                appended.append(next(rows))

        def stream() -> None:
            with streamed.stream() as open_stream:
                for _ in range(options.commits):
                    open_stream.write(next(rows))
                    open_stream.commit()

        appended.append(next(rows))  # imports
        progress(f"{options.commits} commits of {options.rows} rows and {appends} appends, {TIMES} times")
        costs = cheapest({"append": append, "stream": stream}, TIMES)
        append_s, stream_s = costs["append"].wall / appends, costs["stream"].wall / options.commits
        row = Row(
            work=f"commits of a stream per second, {options.database}",
            bar=BAR,
            measured=1 / stream_s,
            more=True,
            details={
                "times as many as appends": append_s / stream_s,
                "ms": stream_s * 1000,
                "ms of processors": costs["stream"].used / options.commits * 1000,
                "ms of an append": append_s * 1000,
            },
        )
        facts = machine_facts() | {"rows": str(options.rows), "disk": disk_of(folder)}
        sys.stdout.write("\n" + as_text([row], facts, []) + "\n")
        write_results([row], facts, [], name=f"table_stream_{options.database}")


if __name__ == "__main__":
    main()
