"""The table that programs write and read, on an embedded metastore, and what a program costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from compactor.batches.assembly import list_claimable_ids
from compactor.batches.driver import run_entries
from compactor.database.engine import open_database
from compactor.metastore.catalog.embedded import NewTable
from compactor.metastore.catalog.values import Column
from compactor.metastore.schema import create
from compactor.requests.request import request_compaction
from compactor.rewrite.run.runner import InProcessRunner
from compactor.site.deployment import configure, open_site
from compactor.state import state_upgrade as state
from compactor.tables.store import Store

PART = 500_000  #: rows that are made at a time
COLUMNS = {"id": "bigint", "k": "int", "amount": "double", "code": "string", "text": "string", "day": "date"}
_KINDS = 1_000_000  #: values of ``k``, each as frequent as every other
ONE_PERCENT = f"k < {_KINDS // 100}"
ROOT = Path(__file__).parents[2]


def parts(rows: int) -> Iterator[pa.RecordBatch]:
    """Yields rows of ``COLUMNS``, some 52 bytes each in Arrow, the same for each number of rows."""
    random = np.random.default_rng(1)
    texts = pa.array([f"some text {number} of a row" for number in range(7919)])
    for first in range(0, rows, PART):
        count = min(PART, rows - first)
        yield pa.record_batch(
            {
                "id": np.arange(first, first + count),
                "k": random.integers(0, _KINDS, count).astype(np.int32),
                "amount": random.random(count) * 1000,
                "code": pa.array(random.integers(0, 5000, count)).cast(pa.string()),
                "text": texts.take(pa.array(random.integers(0, len(texts), count))),
                "day": pa.array(random.integers(18000, 20000, count).astype(np.int32)).cast(pa.date32()),
            }
        )


def stream(rows: int) -> pa.RecordBatchReader:
    """Returns the rows of ``parts`` as a stream."""
    return pa.RecordBatchReader.from_batches(next(parts(1)).schema, parts(rows))


def environment_of(folder: Path) -> dict[str, str]:
    return {"COMPACTOR_METASTORE_URL": f"sqlite:///{folder}/metastore.db", "COMPACTOR_WAREHOUSE": str(folder)}


@contextmanager
def opened(folder: Path, url: str | None = None) -> Iterator[Store]:
    """Yields a new metastore in ``folder``, or one with Hive's empty schema at ``url``, with the database ``b``."""
    environment = environment_of(folder)
    if url is not None:
        environment["COMPACTOR_METASTORE_URL"] = url
        state.init(url).close()
    else:
        database = open_database(environment["COMPACTOR_METASTORE_URL"])
        create.create(database)
        state.upgrade(database)
        database.close()
    with open_site(configure(flags={"compactor.mode": "clean"}, environment=environment)) as site:
        site.metastore.embedded_catalog.create_database("b", str(folder))
        yield Store(site)


def make_table(store: Store, folder: Path, name: str, *, keys: Sequence[Column] = ()) -> None:
    """Creates the table ``b.<name>``, empty; partitioned by ``keys`` if there are any."""
    columns = [Column(name=column, type=kind) for column, kind in COLUMNS.items()]
    location = folder / name
    location.mkdir()
    new = NewTable("b", name, str(location), columns, parameters={"transactional": "true"}, partition_keys=list(keys))
    store.site.metastore.embedded_catalog.create_table(new)


def fill(store: Store, name: str, rows: int) -> None:
    """Appends ``rows`` in two transactions and compacts the table to one file."""
    for _ in range(2):
        store.load_table(f"b.{name}").append(stream(rows // 2))
    request_compaction(store.site, table=f"b.{name}", type="major")
    run_entries(store.site, list_claimable_ids(store.site), InProcessRunner())


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Seconds by the clock, and of processors."""

    wall: float
    used: float


def cheapest(works: dict[str, Callable[[], object]], times: int) -> dict[str, Cost]:
    """Does each work ``times`` times, in turns, and returns the least of each: other programs disturb that the least."""
    costs_by_name: dict[str, list[Cost]] = {name: [] for name in works}
    for _ in range(times):
        for name, work in works.items():
            costs_by_name[name].append(_cost(work))
    return {
        name: Cost(wall=min(cost.wall for cost in costs), used=min(cost.used for cost in costs))
        for name, costs in costs_by_name.items()
    }


def _cost(work: Callable[[], object]) -> Cost:
    used, start = time.process_time(), time.perf_counter()
    work()
    return Cost(wall=time.perf_counter() - start, used=time.process_time() - used)


def peak_of(folder: Path, statement: str, name: str, rows: int) -> int:
    """Returns the peak memory, in bytes, of a process that runs one ``statement`` of ``_STATEMENTS`` on ``b.<name>``."""
    answer = subprocess.run(
        [sys.executable, "-m", "benchmarks.parts.programs", statement, name, str(rows)],
        env={**os.environ, **environment_of(folder)},
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    return int(answer.stdout)


def _scan(store: Store, name: str, _: int) -> None:
    for _batch in store.load_table(f"b.{name}").scan().to_arrow_batch_reader():
        pass


def _append(store: Store, name: str, rows: int) -> None:
    store.load_table(f"b.{name}").append(stream(rows))


def _delete(store: Store, name: str, _: int) -> None:
    store.load_table(f"b.{name}").delete(ONE_PERCENT)


def _mirror(store: Store, name: str, _: int) -> None:
    from benchmarks.mirror import site_with_lake
    from compactor.mirror.mirrored_tables import run_mirrors

    (outcome,) = run_mirrors(
        site_with_lake(store.site, Path(os.environ["COMPACTOR_WAREHOUSE"]) / "lake"), [f"b.{name}"]
    )
    if outcome.error is not None:
        raise outcome.error


_STATEMENTS: dict[str, Callable[[Store, str, int], None]] = {
    "scan": _scan,
    "append": _append,
    "delete": _delete,
    "mirror": _mirror,
}


def main() -> None:
    from compactor.tables import open_metastore

    statement, name, rows = sys.argv[1:]
    with open_metastore() as store:
        _STATEMENTS[statement](store, name, int(rows))
    status = Path("/proc/self/status").read_text().splitlines()
    sys.stdout.write(str(next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))))


if __name__ == "__main__":
    main()
