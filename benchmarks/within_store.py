"""Stripes that the store copies by itself, beside reading and sending them: ``python benchmarks/within_store.py``.

Tables with stripes of 16 MB in a server that speaks S3, behind a line of 50 MB/s in each direction and 20 ms for each
answer. A worker compacts one after the other, by turns with and without taking over, from the claim to the commit. The
server works with the same cores, so the relay also measures how long it worked on requests, and the second ratio is that of
the times less it: what the worker and its line need. ``--deltas`` makes the table larger.

The server is Garage, a store, where cargo is there to build it; else, or with ``--server s3mock``, it is an emulator, which
reads every part again when parts are listed, and writes all of them once more at the end.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.parts.report import Row, conclude, progress
from compactor.database.engine import open_database
from compactor.metastore.schema import create
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state import state_upgrade
from compactor.storage.store_options import StoreOptions
from compactor.storage.stores import Stores
from compactor.worker.ending import Result
from tests.support.far import Far
from tests.support.garage import Served, can_be_built, garage
from tests.support.moved_tables import moved
from tests.support.passes import compact
from tests.support.s3mock import s3mock
from tests.support.tables import with_settings
from tests.support.wide_stripes import wide_table

STRIPES, STRIPE_BYTES = 3, 16 << 20  #: of each delta
BUCKET = "warehouse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One compaction: seconds, those of them in which the store worked, and bytes on the line as a share of the table's."""

    seconds: float
    store: float
    travelled: float

    @property
    def own(self) -> float:
        """The seconds less those in which the store worked."""
        return self.seconds - self.store


def compacted(site: Site, warehouse: Path, name: str, far: Far, stores: Stores, deltas: int) -> Measured:
    table = wide_table(site, warehouse, deltas=deltas, stripes=STRIPES, stripe_bytes=STRIPE_BYTES, name=name)
    size = sum(path.stat().st_size for path in Path(table.location).glob("delta_*/bucket_*"))
    delay, speed, far.delay, far.speed = far.delay, far.speed, 0.0, None
    there = moved(site, table, stores, f"s3a://{BUCKET}/{name}")
    far.delay, far.speed = delay, speed
    far.reset()
    start = time.perf_counter()
    outcome = compact(there, table=f"default.{name}")
    seconds = time.perf_counter() - start
    assert outcome.result is Result.COMPACTED, outcome
    return Measured(seconds=seconds, store=far.worked, travelled=far.bytes / size)


@contextmanager
def served(server: str, folder: Path) -> Iterator[Served]:
    """Yields a running server of that name."""
    if server == "garage":
        with garage(folder, BUCKET) as running:
            yield running
    else:
        with s3mock(folder, BUCKET) as url:
            yield Served(url=url, options={"key": "somebody", "secret": "something"})


@contextmanager
def site_in(folder: Path) -> Iterator[Site]:
    url = f"sqlite:///{folder}/metastore.db"
    database = open_database(url)
    create.create(database)
    state_upgrade.upgrade(database)
    database.close()
    (folder / "warehouse").mkdir()
    environment = {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_WAREHOUSE": str(folder / "warehouse")}
    with open_site(configure("default", environment=environment)) as site:
        yield with_settings(site)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deltas", type=int, default=4, help="of 50 MB each")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--delay", type=float, default=20, help="milliseconds of an answer")
    parser.add_argument("--bandwidth", type=float, default=50, help="MB/s in each direction")
    parser.add_argument("--server", choices=("garage", "s3mock"), default="garage" if can_be_built() else "s3mock")
    options = parser.parse_args()
    results: dict[bool, list[Measured]] = {True: [], False: []}
    progress(f"starting {options.server}, which is built or fetched first where it is not kept from an earlier run")
    with (
        tempfile.TemporaryDirectory() as name,
        site_in(Path(name)) as site,
        served(options.server, Path(name)) as server,
        Far(server.url) as far,
    ):
        store_options = StoreOptions.from_tables({"s3": {"endpoint_url": far.url, **server.options}})
        stores = {takes_over: Stores(replace(store_options, takes_over=takes_over)) for takes_over in results}
        far.delay, far.speed = options.delay / 1000, options.bandwidth * 1e6
        for turn in range(options.turns):
            for takes_over, done in results.items():
                progress(f"turn {turn + 1} of {options.turns}, {'taken over' if takes_over else 'read and sent'}")
                table = f"t{turn}{takes_over:d}"
                done.append(compacted(site, Path(name) / "warehouse", table, far, stores[takes_over], options.deltas))
    seconds = {takes_over: median(measured.seconds for measured in done) for takes_over, done in results.items()}
    own = {takes_over: median(measured.own for measured in done) for takes_over, done in results.items()}
    shares = {takes_over: max(measured.travelled for measured in done) for takes_over, done in results.items()}
    line = f"{options.bandwidth:g} MB/s, {options.delay:g} ms"
    rows = [
        Row(
            work=f"S3, {line}: time of taking over to reading and sending",
            bar=0.3,
            measured=seconds[True] / seconds[False],
            details={"s": seconds[True], "s of the other": seconds[False]},
        ),
        Row(
            work="S3: the same, less the time in which the server worked",
            bar=0.3,
            measured=own[True] / own[False],
            details={"s": own[True], "s of the other": own[False]},
        ),
        Row(
            work="S3: share of the table that travels",
            bar=0.05,
            measured=shares[True],
            details={"of the other": shares[False]},
        ),
    ]
    conclude(rows, "within_store", {"table": f"{options.deltas} deltas of 50 MB", "server": options.server})


if __name__ == "__main__":
    main()
