"""A live Hive 4.1.0 and Compactor on one PostgreSQL."""

from __future__ import annotations

import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from compactor.database.engine import open_database
from compactor.deployment import configure, open_site
from compactor.state import store
from tests.support import hive4, servers
from tests.support.beside import Beside, prepare


@pytest.fixture(scope="session")
def place() -> Iterator[tuple[hive4.Place, servers.Server]]:
    """A database with the schema of Hive 4.1, and a folder for a warehouse."""
    folder = Path(tempfile.mkdtemp(prefix="hive-", dir=servers.MEMORY if servers.MEMORY.is_dir() else None))
    port, password = _free_port(), secrets.token_hex(16)
    try:
        with servers.postgres(port) as server:
            server.make("hive4", servers.hive_schema("postgresql", "4.0.0") + hive4.SCHEMA_4_1)
            server.sql(f"ALTER USER hive PASSWORD '{password}';", "hive4")
            yield hive4.Place(folder=folder, database=f"127.0.0.1:{port}/hive4", password=password), server
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture(scope="session")
def both(place: tuple[hive4.Place, servers.Server]) -> Iterator[Beside]:
    """Both sides, running."""
    where, server = place
    url = server.url.format(name="hive4")
    database = open_database(url)
    store.upgrade(database)
    database.close()
    engine = create_engine(url)
    hive = hive4.Hive(where)
    made = None
    try:
        prepare(hive)
        with open_site(configure(flags={"compactor.mode": "clean", "url": url}, environment={})) as site:
            made = Beside(hive=hive, site=site, url=url, engine=engine)
            yield made
    finally:
        (made.hive if made is not None else hive).kill()
        engine.dispose()


@pytest.fixture
def beside(both: Beside) -> Iterator[Beside]:
    """Both sides, with nothing queued, locked or open; a test leaves it like that."""
    yield both
    left = [*both.queue(), *both.site.metastore.locks.show(), *both.site.metastore.transactions.open_transactions()]
    for txn in both.site.metastore.transactions.open_transactions():
        both.site.metastore.transactions.abort(txn.id, "left by a test")
    both.sql('DELETE FROM "COMPACTION_QUEUE"')
    assert left == []
