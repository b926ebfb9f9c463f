"""Plain Spark jobs that do the work of a compaction, and the memory of Spark's Python workers."""

from __future__ import annotations

import importlib
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from compactor.launch.spark_session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_KEY = ["originalTransaction", "bucket", "rowId"]


@contextmanager
def application(cores: int) -> Iterator[SparkSession]:
    """Yields a local Spark application with its Python workers started."""
    spark = start_session("budget", master=f"local[{cores}]", conf={"spark.driver.memory": "4g"})
    try:
        spark.sparkContext.parallelize(range(cores), cores).foreach(_get_ready)
        yield spark
    finally:
        spark.stop()


def _get_ready(_: int) -> None:
    """Imports what a worker's first unit imports; slow enough for each task to get a worker of its own."""
    importlib.import_module("compactor.rewrite.run.execute")
    time.sleep(1)


def copied(spark: SparkSession, model: Path, target: Path) -> float:
    """Returns the seconds of ``read.orc -> write.orc`` for all rows."""
    return _timed(spark, model, target, delete=False)


def anti_joined(spark: SparkSession, model: Path, target: Path) -> float:
    """Returns the seconds needed to write all rows that no delete event aims at. Delete events are held in memory with every
    column, since that reader cannot leave out columns of an ACID file."""
    return _timed(spark, model, target, delete=True)


def _timed(spark: SparkSession, model: Path, target: Path, *, delete: bool) -> float:
    os.sync()
    start = time.perf_counter()
    rows = spark.read.orc([str(path) for path in model.glob("delta_*")])
    events = spark.read.orc([str(path) for path in model.glob("delete_delta_*")]).persist() if delete else None
    if events is not None:
        rows = rows.join(events, _KEY, "left_anti")
    rows.write.orc(str(target), compression="zlib")
    seconds = time.perf_counter() - start
    if events is not None:
        events.unpersist()
    shutil.rmtree(target)
    return seconds


def forget_peaks() -> None:
    """Resets the peak memory of each Python worker."""
    for process in _workers():
        (process / "clear_refs").write_text("5")


def peak() -> int:
    """Returns the peak memory of any Python worker since ``forget_peaks``, in bytes."""
    statuses = [(process / "status").read_text().splitlines() for process in _workers()]
    return max(int(line.split()[1]) * 1024 for lines in statuses for line in lines if line.startswith("VmHWM"))


def _workers() -> list[Path]:
    """Returns the descendants of this process that are Spark's Python workers."""
    parents: dict[int, int] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(process.name)] = int((process / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return [Path("/proc", str(pid)) for pid in ours if b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()]
