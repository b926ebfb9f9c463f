"""Initiator, worker and cleaner far from their database and store: ``python benchmarks/latencies.py [partitions] [deltas]``.

PostgreSQL answers each round trip 5 ms later (a proxy in a process of its own delays its answers), and each call of the
store takes 20 ms longer, on whichever thread. The initiator considers every partition and requests it, the worker compacts
all, the cleaner cleans all. The figures are partitions per second, and the calls of the store for each partition.
``--tables N`` spreads the partitions over N tables, ``--threads N`` are those of each role, ``--processes`` those in which
the worker rewrites files; what these ask of the store is delayed, too, but not counted. Results go to
``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.delays import SlowRunner, slow_socket, slow_storage
from benchmarks.parts.report import Row, conclude
from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import count_concurrent_groups, run_entries
from compactor.cleaner.cleaner import clean
from compactor.initiator.initiator import initiate
from compactor.metastore.metastore import open_metastore
from compactor.rewrite.run.runner import ProcessRunner
from compactor.site.site import Site
from compactor.state import state_database, state_upgrade
from tests.support import servers
from tests.support.many import make_partitions, site_of

BAR = 50.0  #: partitions per second, each role


@contextmanager
def far_away(folder: Path, options: argparse.Namespace, settings: Mapping[str, str]) -> Iterator[Site]:
    """Yields a site whose metastore is reached through the proxy, with partitions that are due."""
    with ExitStack() as stack:
        server = stack.enter_context(servers.postgres())
        near = server.make("bench", servers.hive_schema("postgresql", "4.0.0"))
        metastore = open_metastore("default", near)
        for number in range(options.tables):
            count = options.partitions // options.tables
            make_partitions(metastore, folder / "warehouse", count, deltas=options.deltas, name=f"t{number}")
        state_upgrade.init(near).close()
        metastore.close()
        far = stack.enter_context(slow_socket(server.folder, options.sql_ms / 1000))
        url = near.replace(str(server.folder), str(far))
        metastore = open_metastore("default", url)
        stack.callback(metastore.close)
        state = state_database.open_state(url)
        stack.callback(state.close)
        yield site_of(metastore, state, **settings)


def rated(role: str, count: int, act: Callable[[], int], calls: dict[str, int]) -> Row:
    """Returns the rate at which ``act`` does ``count`` partitions; it returns how many it has done."""
    calls.clear()
    started, worked = time.perf_counter(), time.process_time()
    done = act()
    seconds, cpu = time.perf_counter() - started, time.process_time() - worked
    assert done == count, f"{role}: {done} of {count}"
    each = {name: number / count for name, number in sorted(calls.items(), key=lambda item: -item[1])}
    sys.stdout.write(
        f"{role:10}{seconds:8.2f} s{count / seconds:8.1f} partitions/s {1000 * cpu / count:7.1f} ms of CPU each  "
        f"{sum(each.values()):6.1f} calls each: {', '.join(f'{name} {number:.1f}' for name, number in each.items())}\n"
    )
    sys.stdout.flush()
    details = {"seconds": seconds, "CPU": cpu, "calls of the store each": sum(each.values())}
    return Row(work=f"{role}, partitions/s", bar=BAR, measured=count / seconds, more=True, details=details)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=512)
    parser.add_argument("deltas", type=int, nargs="?", default=12)
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--threads", type=int, default=128)
    parser.add_argument("--processes", type=int, default=4, help="in which the worker rewrites files")
    parser.add_argument("--sql-ms", type=float, default=5.0)
    parser.add_argument("--storage-ms", type=float, default=20.0)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    settings = {
        "hive_compactor_delta_num_threshold": str(options.deltas - 1),
        "hive_txn_opentxn_timeout": "1ms",
        "hive_compactor_cleaner_threads_num": str(options.threads),
        "compactor_store_threads": str(options.threads),
    }
    count = options.partitions
    with (
        tempfile.TemporaryDirectory(dir=options.folder) as name,
        far_away(Path(name), options, settings) as site,
        slow_storage(options.storage_ms / 1000) as calls,
        SlowRunner(options.processes, options.storage_ms / 1000) as runner,
    ):
        runner.start()
        rows = [
            rated("initiator", count, lambda: len(initiate(site).enqueued), calls),
            rated("worker", count, lambda: _worked(site, runner), calls),
            rated("cleaner", count, lambda: len(clean(site).cleaned), calls),
        ]
    facts = {
        "database": f"PostgreSQL, {options.sql_ms:g} ms to each answer",
        "store": f"local, {options.storage_ms:g} ms to each call",
        "partitions": f"{count} in {options.tables} tables, {options.deltas} deltas each",
        "threads": f"{options.threads}, and {options.processes} processes of the worker",
    }
    conclude(rows, "latencies", facts)


def _worked(site: Site, runner: ProcessRunner) -> int:
    done = run_entries(site, list_claimable_ids(site), runner, parallel=count_concurrent_groups(site.settings))
    assert done.failed == (), done.failed[0].message
    return len(done.outcomes)


if __name__ == "__main__":
    main()
