"""Rows of the budget as a table, as a file with facts of the machine, and as a plot."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parents[1] / "results"
_START = time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the budget: ``measured`` must be at most ``bar``, or at least ``bar`` if ``more`` is better.

    ``details`` are the seconds or bytes that the figure was computed from.
    """

    work: str
    bar: float
    measured: float
    more: bool = False
    details: dict[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        return self.measured >= self.bar if self.more else self.measured <= self.bar

    def line(self) -> str:
        sign = ">=" if self.more else "<="
        details = ", ".join(f"{name} {value:,.2f}" for name, value in self.details.items())
        met = "met" if self.met else "NOT MET"
        return f"{self.work:58} {sign} {self.bar:5.2f}  {self.measured:7.2f}  {met:8} {details}"


def progress(text: str) -> None:
    """Prints a line of progress, with the seconds since the start."""
    sys.stdout.write(f"{time.monotonic() - _START:6.0f} s  {text}\n")
    sys.stdout.flush()


def machine_facts() -> dict[str, str]:
    """Returns the facts of the machine that the figures depend on."""
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": str(os.cpu_count()),
        "processor": cpu[0].partition(":")[2].strip() if cpu else platform.machine(),
        "memory": f"{memory / 2**30:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.1f}",
    }


def disk_of(folder: Path) -> str:
    """Returns the file system of ``folder`` and its mount point."""
    device = os.stat(folder).st_dev
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    kinds = [f"{m[2]} at {m[1]}" for m in mounts if os.path.isdir(m[1]) and os.stat(m[1]).st_dev == device]
    return f"{kinds[-1]}{_no_journal(device)}" if kinds else str(folder)


def _no_journal(device: int) -> str:
    """Returns a note if the device has ext4 without a journal: it then looks, for each new file or directory, at all those
    removed in the last minutes; the removals of an earlier run slow it down, which real disks would not show."""
    name = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve().name
    is_ext4 = Path(f"/sys/fs/ext4/{name}").is_dir()
    return " without a journal" if is_ext4 and not any(Path("/proc/fs/jbd2").glob(f"{name}-*")) else ""


def as_text(rows: Sequence[Row], facts: dict[str, str], left_out: Sequence[str]) -> str:
    """Returns the table for people."""
    table = [f"{'work':58} {'bar':>8}  {'measured':>7}", *(row.line() for row in rows), *left_out]
    lines = [", ".join(f"{name}: {value}" for name, value in facts.items()), "", *table]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def conclude(rows: Sequence[Row], name: str, facts: dict[str, str] | None = None) -> None:
    """Prints the table of a benchmark that is a file of its own, and writes its results."""
    every = machine_facts() | (facts or {})
    sys.stdout.write("\n" + as_text(rows, every, []))
    write_results(rows, every, [], name=name)


def write_results(rows: Sequence[Row], facts: dict[str, str], left_out: Sequence[str], *, name: str) -> None:
    """Writes the table, the figures and a plot to ``results/``, in files of this ``name``."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.txt").write_text(as_text(rows, facts, left_out))
    measured = {"machine": facts, "rows": [{**asdict(row), "met": row.met} for row in rows], "left out": list(left_out)}
    (RESULTS / f"{name}.json").write_text(json.dumps(measured, indent=1) + "\n")
    _plot(rows, RESULTS / f"{name}.svg")


def _plot(rows: Sequence[Row], path: Path) -> None:
    """Plots the factor by which each figure is better than its bar."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "budget"
    from matplotlib import pyplot

    better = [row.measured / row.bar if row.more else row.bar / row.measured for row in rows]
    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(rows) + 1.2), layout="constrained")
    axes.barh([row.work for row in rows], better, color=["#2a7f62" if row.met else "#b3412f" for row in rows])
    axes.axvline(1.0, color="#444444", linewidth=1)
    axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_xlabel("times better than the bar (log scale)")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
