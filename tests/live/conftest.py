"""A live Hive 4.1.0 and Compactor on one PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine

from compactor.database.engine import open_database
from compactor.deployment import configure, open_site
from compactor.state import store
from tests.support import hive4, servers
from tests.support.beside import TRANSACTIONAL, Beside, prepare
from tests.support.trino import Trino


@pytest.fixture(scope="session")
def place() -> Iterator[tuple[hive4.Place, servers.Server]]:
    """A database with the schema of Hive 4.1, and a folder for a warehouse."""
    with hive4.placed() as found:
        yield found


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


@pytest.fixture(scope="session")
def trino(both: Beside, place: tuple[hive4.Place, servers.Server]) -> Iterator[Trino]:
    """Yields a Trino over the same tables, started when a test first asks for it."""
    where, _ = place
    made = Trino(where.folder, where.port)
    try:
        both.hive.sql(f"create table first (a int) {TRANSACTIONAL}")
        both.hive.sql("insert into first values (1)")
        made.wait_until_ready("select a from first")
        yield made
    finally:
        made.kill()


@pytest.fixture
def beside(both: Beside) -> Iterator[Beside]:
    """Yields both sides, with nothing queued, locked or open; a test must leave it like that."""
    yield both
    left = [*both.queue(), *both.site.metastore.locks.show(), *both.site.metastore.transactions.open_transactions()]
    for txn in both.site.metastore.transactions.open_transactions():
        both.site.metastore.transactions.abort(txn.id, "left by a test")
    both.sql('DELETE FROM "COMPACTION_QUEUE"')
    assert left == []
