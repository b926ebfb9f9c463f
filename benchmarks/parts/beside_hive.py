"""A change of some rows of a large table, by us and by a Hive 4.1 that is warm.

Both work on one database of PostgreSQL and on copies of the same files, in turns, each on a partition of its own. ``LIVE=0``
leaves Hive out, and then nothing is compared.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.parts import contents
from benchmarks.parts.lab import Lab, files, opened, warm
from benchmarks.parts.report import Row, as_text, machine_facts, progress, write_results
from tests.support import live_hive
from tests.support.hive4 import HIVE_4_1

TABLE, DELTAS = "facts", 4
IDLE_S = 75  #: Spark ends Python workers that had nothing to do for a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Rivals:
    """Both sides, running, and the table ``facts`` of ``contents.ROWS``, partitioned by ``p``."""

    lab: Lab
    hive: live_hive.Hive
    url: str  #: of the database
    folder: Path
    stack: ExitStack  #: closed at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """The same change of one partition by both, and the numbers of rows that it leaves.

    ``awake`` is done before each of ours, for a session that has been idle while the other side was at work.
    """

    ours: Callable[[str], object]
    theirs: Callable[[str], object]
    left: Callable[[str], tuple[int, ...]]
    awake: Callable[[], object] | None = None


def race(name: str, work: str, bar: float, begin: Callable[[Rivals], Contest]) -> tuple[int, tuple[int, ...]]:
    """Lets both do ``work``, once to warm up and then as often as the command line says (``[rows] [pairs]``).

    Prints how many times faster we are, writes it to the results ``name``, and returns the rows before and ``left``.

    Raises:
        SystemExit: Hive is left out.
        AssertionError: both leave other rows.
    """
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 8_000_000
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    if os.environ.get("LIVE") == "0":
        sys.stdout.write(f"{work} beside Hive: LIVE=0\n")
        raise SystemExit
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        place, server = stack.enter_context(live_hive.placed(HIVE_4_1, "-Xmx2g"))
        url = server.url.format(name=HIVE_4_1.name)
        lab = stack.enter_context(opened(folder, url))
        progress(f"writing {DELTAS} deltas of {count // DELTAS} rows")
        model = lab.table(TABLE, contents.ROWS, [contents.rows(count // DELTAS)] * DELTAS, 2 * (times + 1) + 1)
        warm(files(model))
        progress("starting Hive")
        hive = stack.enter_context(live_hive.running(place))
        hive.sql("show databases")
        contest = begin(Rivals(lab=lab, hive=hive, url=url, folder=folder, stack=stack))
        pairs = []
        for pair in range(times + 1):
            progress(f"pair {pair} of {times}; the first warms both up")
            if contest.awake is not None:
                contest.awake()
            pairs.append((_timed(lab, contest.ours), _timed(lab, contest.theirs)))
            progress(f"{pairs[-1][0]:.1f} s and {pairs[-1][1]:.1f} s")
        ours, theirs = contest.left("000000"), contest.left("000001")
        assert ours == theirs, (ours, theirs)
        details = {"s": median(a for a, _ in pairs[1:]), "s of Hive": median(b for _, b in pairs[1:])}
        if contest.awake is not None:
            time.sleep(IDLE_S)
            details[f"s after {IDLE_S} s without work"] = _timed(lab, contest.ours)
        row = Row(
            work=f"{work} of 1 % of {count} rows: faster than a warm Hive 4.1",
            bar=bar,
            measured=median(b / a for a, b in pairs[1:]),
            more=True,
            details=details,
        )
        facts = machine_facts() | {"rows": str(count)}
        sys.stdout.write("\n" + as_text([row], facts, []) + "\n")
        write_results([row], facts, [], name=name)
        return count, ours


def _timed(lab: Lab, work: Callable[[str], object]) -> float:
    partition = lab.take(TABLE).partition("=")[2]
    os.sync()
    start = time.perf_counter()
    work(partition)
    return time.perf_counter() - start
