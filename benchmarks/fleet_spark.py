"""A fleet on Spark beside the processes of this machine: ``python benchmarks/fleet_spark.py [partitions] [deltas]``.

Both compact equal fleets, ``--rounds`` times in turn, and each is timed from the first claim to the last commit, once the
processes of its units have started. Spark's JVM is new in each round, so its first jobs, which are slow, count. The figure
is the ratio of the median rates; results go to ``benchmarks/results/``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from fleet import queue_requests, runner_of

from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results
from compactor.batches.driver import run_batch

BAR = 0.7
GROUPS = 2  #: under way at once


def rate(folder: Path, master: str | None, partitions: int, deltas: int) -> float:
    """Returns the partitions per second of one fleet."""
    place = folder / "fleet"
    place.mkdir()
    with tempfile.TemporaryDirectory(dir=place) as name:
        queue = queue_requests("sqlite", Path(name), partitions, deltas, "major")
        with runner_of(master) as runner, queue as (site, batch_id):
            start = time.perf_counter()
            done = run_batch(site, batch_id, runner, parallel=GROUPS)
            seconds = time.perf_counter() - start
    place.rmdir()
    assert len(done.outcomes) == partitions
    assert not done.failed
    return partitions / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=1000)
    parser.add_argument("deltas", type=int, nargs="?", default=12)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    here: list[float] = []
    spark: list[float] = []
    facts = machine_facts()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for number in range(1, options.rounds + 1):
            here.append(rate(Path(name), None, options.partitions, options.deltas))
            spark.append(rate(Path(name), options.master, options.partitions, options.deltas))
            progress(
                f"round {number} of {options.rounds}: {here[-1]:.1f}/s here, {spark[-1]:.1f}/s on {options.master}"
            )
    row = Row(
        work=f"{options.partitions} partitions x {options.deltas} deltas: {options.master} beside processes",
        bar=BAR,
        measured=median(spark) / median(here),
        more=True,
        details={"here/s": median(here), "Spark/s": median(spark)},
    )
    sys.stdout.write(as_text([row], facts, []))
    write_results([row], facts, [], name="fleet_spark")


if __name__ == "__main__":
    main()
