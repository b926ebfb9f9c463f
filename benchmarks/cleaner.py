"""The cleaner beside the worker over many small partitions: ``python benchmarks/cleaner.py [partitions] [deltas]``.

Each partition of tiny deltas is compacted, then cleaned. The ratio is the time of the cleaner's pass to that of the worker's
before it; results go to ``benchmarks/results/``. ``--statements`` counts the cleaner's SQL statements, which makes each of
them slower; ``--database`` and ``--folder`` are those of ``initiator.py``; ``--profile`` covers the cleaner.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from pathlib import Path

from fleet import queue_requests, runner_of
from initiator import counted, facts, say

from benchmarks.parts.report import Row, conclude
from compactor.batches.driver import run_batch
from compactor.cleaner.cleaner import clean
from tests.support.tables import with_settings


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=300)
    parser.add_argument("deltas", type=int, nargs="?", default=12)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "mysql"), default="sqlite")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--statements", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        say(f"{options.partitions} partitions x {options.deltas} deltas, {options.database}, {facts(folder)}")
        queue = queue_requests(options.database, folder, options.partitions, options.deltas, "major")
        with runner_of(None) as runner, queue as (site, batch_id):
            site = with_settings(site, hive_txn_opentxn_timeout="1ms")
            start = time.perf_counter()
            run_batch(site, batch_id, runner, parallel=os.cpu_count() or 1)
            worker = time.perf_counter() - start
            profiler = cProfile.Profile()
            time.sleep(0.1)  # the worker's transactions settle
            with counted(*((site.metastore.database,) if options.statements else ())) as count:
                start = time.perf_counter()
                done = profiler.runcall(clean, site) if options.profile else clean(site)
                cleaner = time.perf_counter() - start
            assert (len(done.cleaned), done.failed) == (options.partitions, ()), done
            sent = f"{count.statements / options.partitions:6.1f} SQL statements each" if options.statements else ""
            say(f"{'worker':10}{worker:8.2f} s{options.partitions / worker:9.1f} partitions/s")
            say(f"{'cleaner':10}{cleaner:8.2f} s{options.partitions / cleaner:9.1f} partitions/s{sent}")
            if options.profile:
                pstats.Stats(profiler).sort_stats("cumtime").print_stats(70)
    work = f"{options.partitions} partitions x {options.deltas} deltas: cleaner to worker"
    details = {"s": cleaner, "s of the worker": worker}
    conclude([Row(work=work, bar=1.0, measured=cleaner / worker, details=details)], "cleaner")


if __name__ == "__main__":
    main()
