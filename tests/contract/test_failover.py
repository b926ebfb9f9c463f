"""A failover: another server accepts the writes, and connections of the pool stay with the one that was replaced."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from compactor.base.errors import DatabaseUnavailable, TryAgain
from compactor.database import servers as backends
from compactor.database.engine import Database, open_database
from tests.support import servers
from tests.support.patience import PATIENCE, until
from tests.support.switchover import Address, address_of

#: What a switchover does to the server that is replaced.
_DEMOTE = {
    "postgresql": "ALTER SYSTEM SET default_transaction_read_only = on; SELECT pg_reload_conf();",
    "mysql": "SET GLOBAL read_only = 1;",
}
_MAKE = {
    "postgresql": "CREATE TABLE x (a INT); CREATE ROLE writer LOGIN; GRANT ALL ON x TO writer;",
    "mysql": "CREATE TABLE x (a INT); CREATE USER writer@localhost; GRANT ALL ON pair.* TO writer@localhost;",
}


@pytest.fixture(params=servers.NAMES)
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[servers.Server, servers.Server, Address]]:
    """Two servers with the same table, and an address that leads to the first one."""
    with ExitStack() as stack:
        old, new = (stack.enter_context(servers.start(request.param)) for _ in range(2))
        for server in (old, new):
            server.make("pair", _MAKE[server.kind])
        yield old, new, stack.enter_context(address_of(old))
    gc.collect()


def fill_pool(database: Database, connections: int) -> None:
    """Opens connections, all of which stay in the pool."""
    all_open = threading.Barrier(connections, timeout=PATIENCE)

    def insert() -> None:
        with database.write() as conn:
            conn.exec_driver_sql("INSERT INTO x VALUES (1)")
            all_open.wait()

    threads = [threading.Thread(target=insert) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)


def insert_into(database: Database, number: int) -> DatabaseUnavailable | None:
    """Inserts a row; returns the refusal."""
    try:
        with database.write() as conn:
            conn.exec_driver_sql(f"INSERT INTO x VALUES ({number})")
    except DatabaseUnavailable as error:
        return error
    return None


def count_rows(server: servers.Server) -> int:
    return int(server.sql("SELECT COUNT(*) FROM x;", "pair"))


def demote(server: servers.Server) -> None:
    server.sql(_DEMOTE[server.kind], "postgres" if server.kind == "postgresql" else "mysql")


def read_rows(database: Database) -> list[int]:
    with database.read() as conn:
        return [int(number) for number in conn.exec_driver_sql("SELECT a FROM x").scalars()]


def test_every_write_reaches_the_new_server(pair: tuple[servers.Server, servers.Server, Address]) -> None:
    old, new, address = pair
    url = address.url("pair")
    database = open_database(url if old.kind == "postgresql" else url.replace("root@", "writer@"))
    fill_pool(database, 4)
    demote(old)
    refusal = until("a refusal", lambda: insert_into(database, 2))  # PostgreSQL reads its settings a moment later
    assert re.search(r"(?i)read.only.*this server is a standby, or is being replaced", str(refusal))
    rows = count_rows(old)
    address.server = new
    refusals = [refusal for _ in range(6) if (refusal := insert_into(database, 3)) is not None]
    assert all(isinstance(refusal, TryAgain) for refusal in refusals)
    assert len(refusals) <= 1, "the first refusal renews the whole pool"
    assert count_rows(new) == 6 - len(refusals)
    assert count_rows(old) == rows
    database.close()


def test_reads_leave_the_server_that_was_replaced(
    pair: tuple[servers.Server, servers.Server, Address], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever never writes hears of no failover. The server that is replaced answers all the time."""
    monkeypatch.setattr(backends, "_LOOK_SECONDS", 0.5)
    old, new, address = pair
    for number, server in enumerate((old, new)):
        server.sql(f"INSERT INTO x VALUES ({number});", "pair")
    database = open_database(address.url("pair"))
    assert read_rows(database) == [0]
    demote(old)
    assert read_rows(database) == [0], "a server that accepts no writes can be read"
    address.server = new
    assert until("an answer of the new server", lambda: read_rows(database) == [1])
    database.close()
