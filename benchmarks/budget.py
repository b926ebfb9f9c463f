"""The budget: the allowed cost of a compaction, as ratios to other programs. ``python benchmarks/budget.py``.

Each ratio covers an entry from claim to commit, metastore included, without the start of Spark. Needs 10 GB of disk and
some minutes. ``--only rivals|copy|rewrite|fleet|memory`` measures one part, ``--folder`` chooses the disk; results go to
``benchmarks/results/``, one file per part. ``LIVE=0`` leaves Hive out. Reading through ``hive_acid`` is not measured: this
release has no such reader.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from fleet import queue_requests, runner_of

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts import contents, spark
from benchmarks.parts.lab import Lab, cat, cold, files, opened, warm
from benchmarks.parts.peak import peak_of, plan_of, rewrite_and_discard, seconds_of
from benchmarks.parts.report import Row, as_text, disk_of, machine_facts, progress, write_results
from compactor.base.ids import WriteId
from compactor.batches.driver import run_batch
from compactor.launch.spark_runner import SparkRunner
from compactor.rewrite.run.runner import InProcessRunner
from compactor.worker.ending import Result
from tests.support import live_hive
from tests.support.hive4 import HIVE_4_1
from tests.support.many import row_type
from tests.torture import wide

CORES = os.cpu_count() or 1
BIG, BIG_FILE = 8, 128 << 20  #: deltas and bytes of each: 1 GB
DELTAS, EACH = 20, 400_000  #: of the table of rows: some 240 MB
DELETED = 80_000  #: 1 % of its rows
LARGE = 2_250_000  #: rows of each delta of the same table of 1 GB
PARTITIONS, TINY = 1000, 12  #: of the fleet, and tiny deltas of each
PAIRS = 3


def copy(lab: Lab, folder: Path) -> list[Row]:
    """No deletes, large stripes, 1 GB: compared with ``cat`` and fsync of the same files in the same state of the cache."""
    progress(f"writing {BIG} deltas of {BIG_FILE >> 20} MB")
    model = lab.table("big", contents.BLOBS, [contents.blobs(BIG_FILE)] * BIG, 2 * PAIRS + 3)
    paths = files(model)
    runner = InProcessRunner(threads=CORES)
    lab.compact("big", "minor", runner)  # imports
    rows = []
    for kind, state, prepare, pairs in (
        ("major", "warm", warm, PAIRS),
        ("minor", "warm", warm, PAIRS),
        ("major", "cold", cold, 2),
    ):
        progress(f"{kind} beside cat, {state} cache")
        ours, theirs = [], []
        for _ in range(pairs):
            prepare(paths)
            theirs.append(cat(paths, folder / "cat"))
            prepare(paths)
            ours.append(lab.compact("big", kind, runner).seconds)
        ratio = median(a / b for a, b in zip(ours, theirs, strict=True))
        work = f"{kind}, 1 GB, no deletes, {state} cache: times cat + fsync"
        details = {"s": median(ours), "s of cat": median(theirs)}
        rows.append(Row(work=work, bar=1.25, measured=ratio, details=details))
    return rows


def rewrite(lab: Lab, folder: Path) -> list[Row]:
    """Deletes scattered over every stripe: compared with plain Spark's anti-join, all cores compared with one process per
    core (which share nothing but the machine), and compared with deletes in a tenth of the stripes."""
    inserts = [contents.rows(EACH)] * DELTAS
    every, tenth = range(1, DELTAS + 1), range(1, DELTAS // 10 + 1)
    progress(f"writing {DELTAS} deltas of {EACH} rows twice, with deletes")
    scattered = lab.table(
        "scattered", contents.ROWS, [*inserts, contents.deletes(contents.ROWS, DELETED, every, EACH)], PAIRS + 6
    )
    few = contents.deletes(contents.ROWS, DELETED // 10, tenth, EACH)
    lab.table("tenth", contents.ROWS, [*inserts, few], 3)
    warm(files(scattered))
    progress(f"deletes in every stripe: one on {CORES} cores, {CORES} on one each")
    copies = [folder / "cores" / str(number) for number in range(CORES)]
    for place in copies:
        shutil.copytree(scattered, place, copy_function=os.link)
    seconds = partial(seconds_of, row_type=row_type(contents.ROWS), highest=DELTAS + 1)
    one_each = seconds(copies, cores=1)
    together = seconds(copies[:1], cores=CORES)
    alone = seconds(copies[:1], cores=1)
    progress("deletes in every stripe and in a tenth of them")
    both, part = [], []
    for _ in range(2):
        both.append(lab.compact("scattered", "major", InProcessRunner(threads=CORES)).seconds)
        part.append(lab.compact("tenth", "major", InProcessRunner(threads=CORES)).seconds)
    rows = [
        Row(
            work=f"deletes in every stripe: one on {CORES} cores beside {CORES} on one each",
            bar=0.8,
            measured=one_each / CORES / together,
            more=True,
            details={f"s on {CORES}": together, "s of each": one_each, "s on one, alone": alone},
        ),
        Row(
            work="deletes in 10 % of the stripes: times those in every stripe",
            bar=0.25,
            measured=min(part) / min(both),
            details={"s": min(part), "s in every": min(both)},
        ),
    ]
    progress("the same by plain Spark")
    with spark.application(CORES) as application:
        pairs = _pairs(
            lambda: lab.compact("scattered", "major", SparkRunner(application)).seconds,
            partial(spark.anti_joined, application, scattered, folder / "spark"),
        )
    return [*rows, _faster("deletes in every stripe: faster than Spark's anti-join", 3, "Spark", pairs)]


def rivals(lab: Lab, folder: Path, place: live_hive.Place | None) -> list[Row]:
    """No deletes, 1 GB: compared with plain Spark and Hive's own compactor, each warmed up."""
    progress(f"writing {DELTAS} deltas of {LARGE} rows")
    model = lab.table("facts", contents.ROWS, [contents.rows(LARGE)] * DELTAS, 6)
    warm(files(model))
    progress("beside plain Spark")
    with spark.application(CORES) as application:

        def ours() -> float:
            return lab.compact("facts", "major", SparkRunner(application)).seconds

        pairs = _pairs(ours, partial(spark.copied, application, model, folder / "spark"), 1)
        rows = [_faster("major, 1 GB, no deletes: faster than Spark's read and write", 15, "Spark", pairs)]
        if place is not None:
            progress("beside Hive's own compactor")
            with live_hive.running(place) as hive:
                hive.sql("show databases")
                pairs = _pairs(ours, partial(_by_hive, lab, hive), 1)
            rows.append(_faster("major, 1 GB, no deletes: faster than Hive's own", 10, "Hive", pairs))
    return rows


def _by_hive(lab: Lab, hive: live_hive.Hive) -> float:
    """Returns the seconds that Hive's worker takes for one partition, from claim to commit."""
    spec = lab.take("facts").replace("=", "='") + "'"
    hive.sql(f"alter table facts partition ({spec}) compact 'major'")
    start = time.perf_counter()
    hive.do("worker", session="roles")
    return time.perf_counter() - start


def fleet(folder: Path) -> list[Row]:
    """Tiny partitions, each a compaction of its own, including the embedded metastore's work; without session start."""
    progress(f"{PARTITIONS} partitions of {TINY} tiny deltas")
    place = folder / "fleet"
    place.mkdir()
    with runner_of(None) as runner, queue_requests("sqlite", place, PARTITIONS, TINY, "major") as (site, batch_id):
        os.sync()
        start = time.perf_counter()
        done = run_batch(site, batch_id, runner, parallel=CORES)
        seconds = time.perf_counter() - start
    shutil.rmtree(place)
    assert all(outcome.result is Result.COMPACTED for outcome in done.outcomes)
    work = f"fleet of {PARTITIONS} partitions x {TINY} tiny deltas: compacted per second"
    return [Row(work=work, bar=100, measured=len(done.outcomes) / seconds, more=True, details={"s": seconds})]


def memory(folder: Path) -> list[Row]:
    """Peak memory of a process that rewrites 1 GB and 4 GB of one file number, every eighth delta with deletes."""
    progress(f"writing {4 * BIG} deltas of {BIG_FILE >> 20} MB")
    small, large = folder / "small", folder / "large"
    highest = WriteId(4 * BIG + 1)
    for number in range(1, 4 * BIG + 1):
        contents.blobs(BIG_FILE)(str(large), WriteId(number))
    for path in sorted(large.iterdir())[:BIG]:
        shutil.copytree(path, small / path.name, copy_function=os.link)
    for location, deltas in ((small, BIG), (large, 4 * BIG)):
        some = contents.deletes(contents.BLOBS, 100 * deltas, range(1, deltas + 1, 8), contents.blob_rows(BIG_FILE))
        some(str(location), highest)
    kind = row_type(contents.BLOBS)
    progress("1 GB and 4 GB, each in a process of its own")
    alone = [peak_of(location, kind, highest) / 2**20 for location in (small, large)]
    progress("the same by Spark's Python workers")
    on_spark = []
    with spark.application(1) as application:
        for location in (small, large):
            spark.forget_peaks()
            rewrite_and_discard(plan_of(str(location), kind, highest), SparkRunner(application))
            on_spark.append(spark.peak() / 2**20)
    progress("3 million rows in 31 kB")
    wide_table = folder / "wide" / "delta_0000001_0000001_0000"
    wide_table.mkdir(parents=True)
    wide.write(wide_table / "bucket_00000")
    contents.deletes(contents.WIDE, 1, range(1, 2), wide.ROWS)(str(wide_table.parent), WriteId(2))
    rows = [
        Row(work=work, bar=1.2, measured=many / few, details={"MB": many, "MB at 1 GB": few})
        for work, (few, many) in (
            ("memory of a process: 4 GB beside 1 GB", alone),
            ("memory of Spark's Python workers: 4 GB beside 1 GB", on_spark),
        )
    ]
    most = peak_of(wide_table.parent, wide.ROW_TYPE, 2) / 2**30
    return [*rows, Row(work="memory for a 31 kB stripe of 3 million rows, GB", bar=1, measured=most)]


def _pairs(ours: Callable[[], float], theirs: Callable[[], float], count: int = PAIRS) -> list[tuple[float, float]]:
    """Measures both in turns, in seconds, so that a machine whose speed changes is equally fast for both; a first run that
    warms both up is left out."""
    ours(), theirs()
    return [(ours(), theirs()) for _ in range(count)]


def _faster(work: str, bar: float, rival: str, pairs: Sequence[tuple[float, float]]) -> Row:
    """Returns the row for the factor by which we were faster, the median of ``pairs``."""
    details = {"s": median(a for a, _ in pairs), f"s of {rival}": median(b for _, b in pairs)}
    return Row(work=work, bar=bar, measured=median(b / a for a, b in pairs), more=True, details=details)


def main() -> None:
    parts = ("rivals", "copy", "rewrite", "fleet", "memory")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=parts, default=None)
    parser.add_argument("--folder", type=Path, default=None)
    options = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder)))
        facts = machine_facts() | {"disk": disk_of(folder)}
        place, server = stack.enter_context(live_hive.placed(HIVE_4_1, "-Xmx2g"))
        lab = stack.enter_context(opened(folder, server.url.format(name=HIVE_4_1.name)))
        for part in parts if options.only is None else (options.only,):
            left_out: list[str] = []
            if part == "rivals":
                if os.environ.get("LIVE") == "0":
                    left_out.append("beside Hive's own compactor: LIVE=0")
                rows = rivals(lab, folder, None if left_out else place)
            elif part == "copy":
                rows = copy(lab, folder)
            elif part == "rewrite":
                rows = rewrite(lab, folder)
            elif part == "fleet":
                rows = fleet(folder)
            else:
                rows = memory(folder)
            sys.stdout.write("\n" + as_text(rows, facts, left_out) + "\n")
            write_results(rows, facts, left_out, name=part)


if __name__ == "__main__":
    main()
