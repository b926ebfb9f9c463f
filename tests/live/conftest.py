"""A live Hive 4.1.0 and Compactor on one PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.beside import TRANSACTIONAL, Beside, left_clean, side_by_side
from tests.support.hive4 import HIVE_4_1
from tests.support.live_hive import Place, placed
from tests.support.servers import Server
from tests.support.told_queries import Told, listening
from tests.support.trino import TRINO_483, Trino


@pytest.fixture(scope="session")
def place() -> Iterator[tuple[Place, Server]]:
    """A database with the schema of Hive 4.1, and a folder for a warehouse."""
    with placed(HIVE_4_1) as found:
        yield found


@pytest.fixture(scope="session")
def both(place: tuple[Place, Server]) -> Iterator[Beside]:
    """Both sides, running."""
    with side_by_side(*place) as made:
        yield made


@pytest.fixture(scope="session")
def told(both: Beside, place: tuple[Place, Server]) -> Iterator[Told]:
    """Yields where the session's Trino posts each of its queries."""
    where, _ = place
    with listening(where.folder, both.url) as found:
        yield found


@pytest.fixture(scope="session")
def first_query(both: Beside) -> str:
    """A query that a Trino answers once it is ready."""
    both.hive.sql(f"create table first (a int) {TRANSACTIONAL}")
    both.hive.sql("insert into first values (1)")
    return "select a from first"


@pytest.fixture(scope="session")
def trino(place: tuple[Place, Server], told: Told, first_query: str) -> Iterator[Trino]:
    """Yields a Trino over the same tables, started when a test first asks for it."""
    where, _ = place
    with _ready(Trino(where.folder, where.port, told.url, told.token), first_query) as server:
        yield server


@pytest.fixture(scope="session")
def trino_483(place: tuple[Place, Server], first_query: str) -> Iterator[Trino]:
    """Yields the newest Trino over the same tables."""
    where, _ = place
    with _ready(Trino(where.folder, where.port, release=TRINO_483), first_query) as server:
        yield server


@contextmanager
def _ready(server: Trino, first_query: str) -> Iterator[Trino]:
    try:
        server.wait_until_ready(first_query)
        yield server
    finally:
        server.kill()


@pytest.fixture(params=["trino", "trino_483"], ids=["476", "483"])
def each_trino(request: pytest.FixtureRequest) -> Trino:
    """The release to which most of what docs/readers.md says applies, and the newest."""
    release: Trino = request.getfixturevalue(request.param)
    return release


@pytest.fixture
def beside(both: Beside) -> Iterator[Beside]:
    """Yields both sides, with nothing queued, locked or open; a test must leave it like that."""
    with left_clean(both):
        yield both
