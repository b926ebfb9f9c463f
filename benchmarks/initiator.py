"""One pass of the initiator over many partitions: ``python benchmarks/initiator.py [partitions] [deltas] [--tables N]``.

The partitions are those of one table or, evenly, of N. Five passes over real directories: nothing is due, nothing has
changed since, everything is due and is requested, everything is in the queue, nothing has changed since. The figures are
seconds, SQL statements, and the ratio of the second pass to the first, of processor time, since a listing that is not
made is the point and not how fast the disk is; results go to ``benchmarks/results/``. ``--program`` measures
the whole program instead, and takes off the time in which it looks at an empty metastore; the best of three runs each.
``--database postgresql`` (or ``mysql``) starts a server with Hive's own schema, ``--folder`` chooses where the
directories are made, ``--profile`` prints where the time went. ``benchmarks/initiator_fleet.py`` is a pass over a million.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import event

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.report import Row, conclude, disk_of
from compactor.database.engine import Database, open_database
from compactor.initiator.initiator import initiate
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import create
from compactor.site.site import Site
from compactor.state import state_database, state_upgrade
from tests.support import servers
from tests.support.many import make_partitions, site_of


@dataclass(slots=True)
class Count:
    statements: int = 0
    rows: int = 0


@contextmanager
def counted(*databases: Database) -> Iterator[Count]:
    """Counts the statements sent to ``databases``; a statement with many rows of values counts once."""
    count = Count()

    def seen(conn: object, cursor: object, statement: str, parameters: object, context: object, many: bool) -> None:
        count.statements += 1

    for database in databases:
        event.listen(database.engine, "before_cursor_execute", seen)
    try:
        yield count
    finally:
        for database in databases:
            event.remove(database.engine, "before_cursor_execute", seen)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def facts(folder: Path) -> str:
    """Returns the facts that the figures depend on."""
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, directories in {disk_of(folder)}"


@contextmanager
def opened(kind: str, folder: Path) -> Iterator[tuple[Metastore, state_database.OwnState]]:
    """Yields an empty metastore and our state beside it."""
    with ExitStack() as stack:
        if kind == "sqlite":
            url = f"sqlite:///{folder / 'metastore.db'}"
            database = open_database(url)
            create.create(database)
            database.close()
        else:
            server = stack.enter_context(servers.postgres() if kind == "postgresql" else servers.mariadb())
            url = server.make("bench", servers.hive_schema(kind, "4.0.0"))
        metastore = open_metastore("default", url)
        stack.callback(metastore.close)
        state = state_upgrade.init(url)
        stack.callback(state.close)
        yield metastore, state


def one_pass(label: str, site: Site, profile: bool) -> tuple[float, float]:
    """Returns the seconds of a pass, and those of processor time."""
    assert site.state is not None
    profiler = cProfile.Profile(time.thread_time) if profile else None
    with counted(site.metastore.database, site.state.database) as count:
        start, worked = time.perf_counter(), time.process_time()
        done = profiler.runcall(initiate, site) if profiler else initiate(site)
        seconds, cpu = time.perf_counter() - start, time.process_time() - worked
    outcomes = ", ".join(sorted({c.outcome for c in done.considered}))
    say(
        f"{label:22}{seconds:8.2f} s ({cpu:.2f} s of CPU){count.statements:7} SQL statements{len(done.enqueued):8} requested"
        f"{done.kept:8} unchanged   {outcomes}"
    )
    if profiler:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(30)
    return seconds, cpu


def ratio(work: str, bar: float, first: tuple[float, float], again: tuple[float, float]) -> Row:
    """Returns the ratio of the processor times; the details are those of the clock and of the processor."""
    details = {"s": again[0], "s of the first": first[0], "CPU": again[1], "CPU of the first": first[1]}
    return Row(work=work, bar=bar, measured=again[1] / first[1], details=details)


def whole_program(folder: Path, partitions: int, deltas: int, tables: int) -> None:
    """Measures ``compactor run initiator --once`` on an empty metastore, then on the partitions: first, and again."""
    empty, full = folder / "empty", folder / "full"
    for home in (empty, full):
        home.mkdir()
    with opened("sqlite", full) as (metastore, _):
        for number in range(tables):
            make_partitions(metastore, full / "warehouse", partitions // tables, deltas=deltas, name=f"t{number}")
    with opened("sqlite", empty):
        pass
    _program("warm", empty)
    start = _best("start", empty, 3)
    first, again = _best("first", full, 1), _best("again", full, 3)
    work = f"program over {partitions} candidates, less its start: again to first, of CPU"
    conclude([ratio(work, 0.25, _subtract(first, start), _subtract(again, start))], "initiator_program")


def _subtract(total: tuple[float, float], part: tuple[float, float]) -> tuple[float, float]:
    return total[0] - part[0], total[1] - part[1]


def _best(label: str, home: Path, runs: int) -> tuple[float, float]:
    times = [_program(label, home) for _ in range(runs)]
    return min(seconds for seconds, _ in times), min(cpu for _, cpu in times)


def _program(label: str, home: Path) -> tuple[float, float]:
    url = f"sqlite:///{home / 'metastore.db'}"
    environment = os.environ | {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_WAREHOUSE": str(home / "warehouse")}
    program = [str(Path(sys.executable).parent / "compactor"), "--json", "run", "initiator", "--once"]
    start, before = time.perf_counter(), os.times()
    done = subprocess.run(program, env=environment, check=True, stdout=subprocess.PIPE)
    seconds, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    report = json.loads(done.stdout)
    say(
        f"{label:8}{seconds:8.2f} s ({cpu:.2f} s of CPU), {len(report['considered'])} considered, {report['kept']} unchanged"
    )
    return seconds, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=20_000)
    parser.add_argument("deltas", type=int, nargs="?", default=4)
    parser.add_argument("--database", choices=("sqlite", "postgresql", "mysql"), default="sqlite")
    parser.add_argument("--tables", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--program", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        size = f"{options.partitions} partitions in {options.tables} tables x {options.deltas} deltas"
        say(f"{size}, {options.database}, {facts(folder)}")
        if options.program:
            whole_program(folder, options.partitions, options.deltas, options.tables)
            return
        with opened(options.database, folder) as (metastore, state):
            start = time.perf_counter()
            for number in range(options.tables):
                count = options.partitions // options.tables
                make_partitions(metastore, folder / "warehouse", count, deltas=options.deltas, name=f"t{number}")
            say(f"{'made':22}{time.perf_counter() - start:8.2f} s")
            calm = site_of(metastore, state, hive_compactor_delta_num_threshold=str(options.deltas))
            due = site_of(metastore, state, hive_compactor_delta_num_threshold=str(options.deltas - 1))
            first = one_pass("nothing is due", calm, options.profile)
            again = one_pass("nothing has changed", calm, options.profile)
            one_pass("everything is due", due, options.profile)
            one_pass("everything is queued", due, options.profile)
            one_pass("nothing has changed", due, options.profile)
    work = f"{options.partitions} candidates, {options.tables} tables: again to first, of CPU"
    conclude([ratio(work, 0.05, first, again)], "initiator", {"database": options.database})


if __name__ == "__main__":
    main()
