"""One application over many small partitions: ``python benchmarks/fleet.py [partitions] [deltas]``.

Each partition of tiny deltas is one compaction with all its work in the metastore, from claim to commit. The figure is
partitions per second after the start of the session. ``--master local[2]`` runs the units in Spark, else they run in
this process; ``--type minor`` compacts to a delta instead of a base; ``--statements`` counts SQL statements, which makes
each of them slower; ``--database``, ``--folder`` and ``--profile`` are those of ``initiator.py`` (a profile covers one
group after the other in this process, since it sees one thread only).
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from initiator import counted, facts, opened, say

from compactor.batches.assembly import plan_batches
from compactor.batches.driver import MAX_GROUP_SIZE, WorkerPass, run_batch
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner, ProcessRunner, Runner
from compactor.site.site import Site
from compactor.worker.ending import Outcome
from compactor.worker.under_way import Options
from compactor.worker.worker import work_together
from tests.support.many import make_partitions, site_of


@contextmanager
def runner_of(master: str | None) -> Iterator[Runner]:
    if master is None:
        start = time.perf_counter()
        with ProcessRunner(os.cpu_count() or 1) as runner:
            runner.start()
            say(f"{'session':22}{time.perf_counter() - start:8.2f} s")
            yield runner
        return
    from compactor.launch.spark_runner import SparkRunner
    from compactor.launch.spark_session import start_session

    start = time.perf_counter()
    spark = start_session("fleet", master=master)
    try:
        runner = SparkRunner(spark)
        runner.start().result()
        say(f"{'session':22}{time.perf_counter() - start:8.2f} s")
        yield runner
    finally:
        spark.stop()


@contextmanager
def queue_requests(database: str, folder: Path, partitions: int, deltas: int, type: str) -> Iterator[tuple[Site, int]]:
    """Yields a site with a compaction requested for each of ``partitions`` partitions, and the batch of all of them."""
    with opened(database, folder) as (metastore, state):
        table = make_partitions(metastore, folder / "warehouse", partitions, deltas=deltas)
        site = site_of(metastore, state)
        request_compaction(site, table=str(table), type=type)
        (batch,) = plan_batches(site)
        yield site, batch.batch_id


def timed(site: Site, work: Callable[[], WorkerPass], *, statements: bool) -> tuple[WorkerPass, str]:
    assert site.state is not None
    with counted(*((site.metastore.database, site.state.database) if statements else ())) as count:
        start, cpu = time.perf_counter(), time.process_time()
        done = work()
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    number = len(done.outcomes)
    fates = ", ".join(f"{fate.name.lower()} {n}" for fate, n in Counter(o.result for o in done.outcomes).items())
    sent = f"{count.statements / number:7.1f} SQL statements each" if statements else ""
    return done, (
        f"{seconds:8.2f} s{number / seconds:9.1f} partitions/s   {1000 * cpu / number:.1f} ms of this process each"
        f"{sent}   {fates}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=1000)
    parser.add_argument("deltas", type=int, nargs="?", default=12)
    parser.add_argument("--type", choices=("major", "minor"), default="major")
    parser.add_argument("--master", default=None)
    parser.add_argument("--parallel", type=int, default=os.cpu_count() or 1, help="groups of entries under way at once")
    parser.add_argument("--database", choices=("sqlite", "postgresql", "mysql"), default="sqlite")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--statements", action="store_true")
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        say(
            f"{options.partitions} partitions x {options.deltas} deltas, {options.type}, {options.parallel} at once, "
            f"{options.master or 'in process'}, {options.database}, {facts(folder)}"
        )
        queue = queue_requests(options.database, folder, options.partitions, options.deltas, options.type)
        with runner_of(options.master) as runner, queue as (site, batch_id):
            profiler = cProfile.Profile(time.thread_time)

            def batched() -> WorkerPass:
                return run_batch(site, batch_id, runner, parallel=options.parallel)

            def one_by_one() -> WorkerPass:
                waiting = [entry.id for entry in site.metastore.entries.queue()]
                outcomes: list[Outcome] = []
                for start in range(0, len(waiting), MAX_GROUP_SIZE):
                    group = waiting[start : start + MAX_GROUP_SIZE]
                    profiler.runcall(
                        work_together, site.for_a_pass(), group, InProcessRunner(), Options(), outcomes.append
                    )
                return WorkerPass(outcomes=tuple(outcomes))

            done, line = timed(site, one_by_one if options.profile else batched, statements=options.statements)
            say(f"{'claimed to committed':22}{line}")
            figures = sorted(o.seconds for o in done.outcomes)
            say(f"{'one entry':22}median {figures[len(figures) // 2]:.3f} s, maximum {figures[-1]:.3f} s")
            if options.profile:
                pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
                pstats.Stats(profiler).sort_stats("cumtime").print_stats(90)


if __name__ == "__main__":
    main()
