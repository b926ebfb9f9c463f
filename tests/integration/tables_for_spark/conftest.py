"""A metastore with a table, an application to keep transactions for, and what the metastore says of them."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from compactor.acid import txn_states
from compactor.base.errors import NotSupported
from compactor.site.site import Site
from compactor.spark_tables.driver_jvm import find_process
from compactor.spark_tables.keeper_client import Keeper
from compactor.spark_tables.keeper_folder import Folder
from compactor.spark_tables.keeper_requests import MetastorePlace
from compactor.tables import Store
from tests.support.passes import every_role, time_out_all
from tests.support.patience import until
from tests.support.tables import with_settings


@pytest.fixture
def store(deployment: Site, warehouse: Path) -> Store:
    """A metastore with ``db.t(i bigint, s string)``, which has three rows."""
    found = Store(deployment)
    found.create_database("db", str(warehouse))
    found.create_table("db.t", {"i": "bigint", "s": "string"})
    found.load_table("db.t").append(pa.table({"i": [1, 2, 3], "s": ["a", "b", None]}))
    return found


@pytest.fixture
def config(metastore_url: str, tmp_path: Path) -> str:
    """The path of a ``compactor.toml`` that names the metastore."""
    path = tmp_path / "compactor.toml"
    path.write_text(f'[metastore.default]\nurl = "{metastore_url}"\n')
    return str(path)


@pytest.fixture
def place(config: str) -> MetastorePlace:
    return MetastorePlace(config=config, application="app-7")


@pytest.fixture
def application() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for a driver's JVM: it does nothing."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as started:
        yield started
        started.kill()


@pytest.fixture
def folder(application: subprocess.Popen[bytes], tmp_path: Path) -> Folder:
    return Folder(find_process(application.pid), tmp_path / "k")


@pytest.fixture
def keeper(application: subprocess.Popen[bytes], folder: Folder) -> Iterator[Keeper]:
    """The client of the application's keeper; one that runs in the end is told to end."""
    yield Keeper(find_process(application.pid), folder)
    if folder.log.exists() and (pid := keeper_of(folder)) is not None:
        os.kill(pid, signal.SIGTERM)
        until("the end of the keeper", lambda: keeper_of(folder) is None)


def keeper_of(folder: Folder) -> int | None:
    """Returns the process of the keeper that was started last; None if it has ended."""
    ready = [line for line in folder.log.read_text().splitlines() if "is ready" in line]
    pid = int(ready[-1].split(" keeper ")[1].split()[0])
    try:
        return find_process(pid).pid
    except NotSupported:
        return None


def rows_of(store: Store, name: str = "db.t") -> list[int]:
    return sorted(row["i"] for row in store.load_table(name).scan().to_arrow().to_pylist())


def hidden(warehouse: Path) -> list[Path]:
    return list(warehouse.rglob(".compactor_w*"))


def time_out_and_sweep(site: Site, name: str, rows: Mapping[str, list[int]]) -> None:
    """Does what the roles do once hive.txn.timeout is over, and ``rows`` are written into ``db.<name>``, which is compacted
    again."""
    time_out_all(site)
    Store(site).load_table(f"db.{name}").append(pa.table(rows))
    every_role(with_settings(site, hive_txn_opentxn_timeout="1ms", hive_compactor_abortedtxn_threshold="0"))


@pytest.fixture
def open_agents(deployment: Site) -> Callable[[], list[str]]:
    """Returns who holds the transactions that are open."""

    def agents() -> list[str]:
        return [
            txn.agent or "" for txn in deployment.metastore.transactions.unfinished() if txn.state == txn_states.OPEN
        ]

    return agents
