"""Times the page over a large fleet: ``python benchmarks/overview.py [partitions] [--database postgresql|sqlite]``.

All rows are made up: for each partition what was last found there, three ended compactions, one finished run of the last
month and one committed write; for a fifth of them a row of the queue. Each answer is given once to warm up and then five
times; the median counts. Seconds and seconds of this process's CPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from sqlalchemy import Table, func, insert, select

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.report import Row, conclude, disk_of, progress
from compactor.airflow.page.queries import LastAnswer
from compactor.answers import overview
from compactor.answers.fleet import Fleet, count_fleet, fleet, with_queue
from compactor.answers.readings import take_readings
from compactor.compaction.health import Condition
from compactor.compaction.queue_entry import Entity
from compactor.compaction.states import CompactionType
from compactor.database.engine import Database, open_database
from compactor.metastore.metastore import open_metastore
from compactor.metastore.schema import create
from compactor.metastore.schema import tables as t
from compactor.site.site import Site, own_state
from compactor.state import state_upgrade
from compactor.state.runs import DAY_MS, Run
from compactor.state.seen_conditions import SeenEntity
from compactor.state.state_tables import RUNS
from tests.support import servers
from tests.support.many import site_of

TABLES = 500
PAGE = 50  #: rows
BAR = 0.5  #: seconds for each answer of the page
_AT_ONCE = 5_000


@contextmanager
def url_of(kind: str, folder: Path) -> Iterator[str]:
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'metastore.db'}"
        return
    with servers.postgres() as server:
        yield server.make("bench", servers.hive_schema("postgresql", "4.0.0"))


def entity(number: int) -> Entity:
    return Entity(database=f"db{number % 7}", table=f"t{number % TABLES}", partition=f"day={number // TABLES}")


def put(database: Database, table: Table, rows: Iterator[dict[str, object]]) -> None:
    values = list(rows)
    with database.write() as conn:
        for at in range(0, len(values), _AT_ONCE):
            conn.execute(insert(table), values[at : at + _AT_ONCE])


def repeat(database: Database, table: Table, key: str, shifts: list[int]) -> None:
    """Copies all rows within the database, with their keys moved by each of ``shifts``."""
    names = list(table.c.keys())
    with database.write() as conn:
        first = conn.execute(select(func.max(table.c[key]))).scalar_one()
        for shift in shifts:
            columns = [table.c[name] + shift if name == key else table.c[name] for name in names]
            conn.execute(insert(table).from_select(names, select(*columns).where(table.c[key] <= first)))


def analyze(database: Database) -> None:
    """Has the database look at how its rows are spread, as its own servant does once a minute."""
    with database.write() as conn:
        conn.exec_driver_sql("ANALYZE")


def seen(number: int, now: int) -> SeenEntity:
    figures = Condition(
        base_bytes=10_000_000,
        delta_bytes=1_000_000,
        delete_bytes=0,
        deltas=number % 20,
        files=8,
        small_files=3,
        obsolete=0,
        aborts=0,
        health=number % 101,
    )
    outcome = ("due", "notneeded", "notneeded", "skipped")[number % 4]
    return SeenEntity(entity=entity(number), outcome=outcome, because="made up", condition=figures, at=now)


def make(site: Site, partitions: int) -> None:
    metastore, state, now = site.metastore, own_state(site), site.metastore.now_ms()
    everything = [entity(number) for number in range(partitions)]
    for begin in range(0, partitions, _AT_ONCE):
        numbers = range(begin, min(begin + _AT_ONCE, partitions))
        state.conditions.record(site.name, [seen(number, now) for number in numbers])
        if begin == 0:
            analyze(state.database)
    progress("what was found is there")

    def row(prefix: str, number: int, state: str, entry: int) -> dict[str, object]:
        target = everything[number]
        values = {"ID": entry, "DATABASE": target.database, "TABLE": target.table, "PARTITION": target.partition}
        values |= {"TYPE": "a", "STATE": state, "START": now - 1000, "WORKER_VERSION": "9.9", "COMMIT_TIME": now}
        return {f"{prefix}_{name}": value for name, value in values.items()}

    put(
        metastore.database,
        t.COMPACTION_QUEUE,
        (row("CQ", n, "iwr"[n % 3], n + 1) | {"CQ_ENQUEUE_TIME": now} for n in range(partitions // 5)),
    )
    progress("the queue is there")
    ended = (row("CC", n, "s", partitions + n) | {"CC_END": now} for n in range(partitions))
    put(metastore.database, t.COMPLETED_COMPACTIONS, ended)
    repeat(metastore.database, t.COMPLETED_COMPACTIONS, "CC_ID", [partitions, 2 * partitions])
    progress("the history is there")
    written = ({"CTC_TXNID": 1, "CTC_WRITEID": 1, "CTC_DATABASE": e.database, "CTC_TABLE": e.table} for e in everything)
    put(metastore.database, t.COMPLETED_TXN_COMPONENTS, ({**row, "CTC_UPDATE_DELETE": "N"} for row in written))
    runs = [
        Run(metastore=site.name, entry_id=n, entity=target, type=CompactionType.MAJOR, seconds=1.0, bytes_before=100)
        for n, target in enumerate(everything)
    ]
    for at in range(0, partitions, _AT_ONCE):
        state.runs.add_all(runs[at : at + _AT_ONCE])
    with state.database.write() as conn:
        conn.execute(RUNS.update().values(ENDED_AT=RUNS.c.ENDED_AT - (RUNS.c.RUN_ID % 40) * DAY_MS))
    analyze(state.database)


def timed(answer: Callable[[], object]) -> tuple[float, float]:
    """Returns the median of seconds and of seconds of CPU."""
    answer()
    costs = []
    for _ in range(5):
        start, worked = time.perf_counter(), time.process_time()
        answer()
        costs.append((time.perf_counter() - start, time.process_time() - worked))
    return statistics.median(wall for wall, _ in costs), statistics.median(cpu for _, cpu in costs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="?", default=100_000)
    parser.add_argument("--database", choices=("postgresql", "sqlite"), default="postgresql")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, url_of(options.database, Path(name)) as url:
        if options.database == "sqlite":
            with closing(open_database(url)) as database:
                create.create(database)
        metastore, state = open_metastore("default", url), state_upgrade.init(url)
        site = site_of(metastore, state)
        make(site, options.partitions)
        progress(f"{options.partitions} partitions, {options.database}, database in {disk_of(Path(name))}")
        last = LastAnswer[Fleet]()
        answers: dict[str, Callable[[], object]] = {
            "overview, as the page gives it": lambda: with_queue(site, last.get(lambda: count_fleet(site))).to_json(),
            "overview, counted anew": lambda: fleet(site).to_json(),
            "of it, the readings of alarms": lambda: take_readings(site),
            "first page of tables": lambda: overview.tables_page(
                site,
                outcome="",
                order="health",
                descending=False,
                find="",
                limit=PAGE,
                offset=0,
            ),
            "first page of the queue": lambda: overview.queue_page(site, state=None, find="", limit=PAGE, offset=0),
            "first page of the history": lambda: overview.history_page(
                site, states=None, find="", limit=PAGE, offset=0
            ),
        }
        rows = []
        for what, answer in answers.items():
            seconds, cpu = timed(answer)
            rows.append(Row(work=f"{what}, seconds", bar=BAR, measured=seconds, details={"own CPU": cpu}))
            progress(rows[-1].line())
        metastore.close()
        state.close()
    conclude(rows, f"overview_{options.database}")


if __name__ == "__main__":
    main()
