"""Write IDs and claims per second, as a ratio to a bare loop of the same SQL.

``python benchmarks/metastore.py [calls] [--memory]``

On SQLite, PostgreSQL and MariaDB. The statements of one round of our calls are recorded; then our calls and a loop that
sends the recorded statements through the driver alone, with the same commits and on a connection with the same set-up,
take turns from the same state. A ratio of 1 means as fast as the loop; 0.7 is wanted. Everything is local and on disk, and
each commit waits for the disk, as at a site; with ``--memory`` it does not, which leaves our own time nothing to hide
behind.
"""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy import event

sys.path.insert(0, str(Path(__file__).parents[1]))

from compactor.base.ids import TxnId
from compactor.compaction.queue_entry import Entity, Request
from compactor.compaction.states import CompactionType
from compactor.database.engine import Database, open_database
from compactor.metastore.metastore import Metastore, open_metastore
from compactor.metastore.schema import create
from tests.support import servers

WANTED = 0.7
ROUNDS = 5
WARM_UP = 20  #: calls before the clock starts; both sides have then prepared their statements


@dataclass(slots=True)
class Store:
    """A database that can be reset."""

    name: str
    url: str
    renew: Callable[[], None]


@dataclass(slots=True)
class Tape:
    """A recording of the calls to the driver: statements with their parameters, and None for a commit."""

    calls: list[list[tuple[str, Any, bool] | None]] = field(default_factory=list)

    def attach(self, database: Database) -> None:
        def statement(_: Any, __: Any, text: str, parameters: Any, ___: Any, many: bool) -> None:
            self.calls[-1].append((text, parameters, many))

        event.listen(database.engine, "before_cursor_execute", statement)
        event.listen(database.engine, "commit", lambda _: self.calls[-1].append(None))


def prepare(metastore: Metastore, calls: int) -> list[TxnId]:
    """Opens transactions and makes requests, one of each per call."""
    metastore.embedded_catalog.create_database("default", "/warehouse")
    entities = [Entity(database="default", table="t", partition=f"p={number}") for number in range(calls)]
    metastore.requests.request_all(
        [Request(entity=entity, type=CompactionType.MINOR, initiator="compactor-bench") for entity in entities]
    )
    return metastore.transactions.open("u", "bench", count=calls)


def workloads(metastore: Metastore, txns: list[TxnId]) -> dict[str, Callable[[int], object]]:
    """Returns the measured calls by name; each takes the number of the call."""
    return {
        "write ids": lambda number: metastore.write_ids.allocate(txns[number], "default", "t"),
        "claims": lambda number: metastore.claims.claim("compactor-bench", "1", pool_timeout_ms=1000),
    }


@contextmanager
def renewed(store: Store, calls: int) -> Iterator[tuple[Metastore, list[TxnId]]]:
    store.renew()
    with closing(open_metastore("default", store.url)) as metastore:
        yield metastore, prepare(metastore, calls)


def record(store: Store, calls: int, name: str) -> Tape:
    tape = Tape()
    with renewed(store, calls) as (metastore, txns):
        tape.calls.append([])
        tape.attach(metastore.database)
        work = workloads(metastore, txns)[name]
        tape.calls.clear()
        for number in range(calls):
            tape.calls.append([])
            work(number)
    return tape


def ours(store: Store, calls: int, name: str) -> float:
    with renewed(store, calls) as (metastore, txns):
        work = workloads(metastore, txns)[name]
        return timed(work, calls)


def bare(store: Store, calls: int, tape: Tape) -> float:
    with renewed(store, calls) as (metastore, _):
        with metastore.database.read():
            pass  # the connection is made and set up
        pooled = metastore.database.engine.raw_connection()
        connection: Any = pooled.driver_connection

        def send(number: int) -> None:
            cursor = connection.cursor()
            for step in tape.calls[number]:
                if step is None:
                    connection.commit()
                    continue
                text, parameters, many = step
                if many:
                    cursor.executemany(text, parameters)
                else:
                    cursor.execute(text, parameters)
                if cursor.description is not None:
                    cursor.fetchall()
            cursor.close()

        try:
            return timed(send, calls)
        finally:
            pooled.close()


def timed(work: Callable[[int], object], calls: int) -> float:
    """Returns the seconds of the median call."""
    times = []
    for number in range(calls):
        start = time.perf_counter()
        work(number)
        times.append(time.perf_counter() - start)
    return statistics.median(times[WARM_UP:])


def stores(stack: ExitStack, durable: bool) -> Iterator[Store]:
    parent = "/var/tmp" if durable else "/dev/shm"
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=parent)))
    fresh, used = folder / "fresh.db", folder / "metastore.db"
    with closing(open_database(f"sqlite:///{fresh}")) as database:
        create.create(database)

    def copy() -> None:
        for path in folder.glob("metastore.db*"):
            path.unlink()
        shutil.copyfile(fresh, used)

    yield Store("SQLite", f"sqlite:///{used}", copy)
    for name, kind, start in (("PostgreSQL", "postgresql", servers.postgres), ("MariaDB", "mysql", servers.mariadb)):
        server = stack.enter_context(start(durable=durable))
        url = server.make("bench", servers.hive_schema(kind, "4.0.0"))
        rows = servers.Rows(url)
        stack.callback(rows.close)
        yield Store(name, url, rows.restore)


def machine() -> str:
    info = Path("/proc/cpuinfo")
    models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    busy = os.getloadavg()[0]
    model = models[0] if models else platform.machine()
    return f"{model}, {os.cpu_count()} cores, load {busy:.1f}, Python {platform.python_version()}"


def main() -> None:
    numbers = [argument for argument in sys.argv[1:] if argument != "--memory"]
    calls = WARM_UP + (int(numbers[0]) if numbers else 200)
    sys.stdout.write(f"{machine()}; {calls - WARM_UP} calls, the median one, best of {ROUNDS}\n")
    with ExitStack() as stack:
        for store in stores(stack, durable="--memory" not in sys.argv):
            for name in ("write ids", "claims"):
                tape = record(store, calls, name)
                best_ours = best_bare = float("inf")
                for _ in range(ROUNDS):
                    best_ours = min(best_ours, ours(store, calls, name))
                    best_bare = min(best_bare, bare(store, calls, tape))
                statements = sum(step is not None for step in tape.calls[-1])
                ratio = best_bare / best_ours
                rates = f"{1 / best_ours:8.0f}/s  bare {1 / best_bare:8.0f}/s"
                judged = "" if ratio >= WANTED else f"  (wanted {WANTED})"
                sys.stdout.write(
                    f"{store.name:11}{name:10}{statements:3} statements {rates}  ratio {ratio:.2f}{judged}\n"
                )
                sys.stdout.flush()


if __name__ == "__main__":
    main()
