"""A failover at night: the primary dies, a standby takes over, and everybody goes on, twice in a row.

``TORTURE_SECONDS`` says how long the drill takes.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compactor.base.errors import CommitUnknown, CompactorError
from compactor.metastore.catalog.values import Table
from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state.state_upgrade import init
from tests.support import servers
from tests.support.passes import ROLES, every_role
from tests.support.patience import PATIENCE
from tests.support.switchover import Address, address_of
from tests.support.tables import insert, make_table, rows_of
from tests.torture.accident_actors import SETTINGS

SECONDS = float(os.environ.get("TORTURE_SECONDS", "20"))
PROMOTIONS = 2
WRITERS = 2


class Night:
    """The threads that use the site through the address, and what they met."""

    def __init__(self, site: Callable[[], Site], table: Table) -> None:
        self.committed: set[int] = set()
        self.in_doubt: set[int] = set()
        self.refusals: Counter[str] = Counter()
        self.passes: Counter[str] = Counter()
        self.failures: list[BaseException] = []
        self._done = threading.Event()
        self._site, self._table = site, table
        self._numbers = itertools.count()
        work = [*((role.__name__, role) for role in ROLES), *((f"writer {n}", self._write) for n in range(WRITERS))]
        self._threads = [threading.Thread(target=self._repeat, args=one) for one in work]

    def __enter__(self) -> Night:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def _repeat(self, name: str, act: Callable[[Site], object]) -> None:
        with self._site() as site:
            while not self._done.is_set():
                try:
                    act(site)
                    self.passes[name] += 1
                except CompactorError as error:
                    self.refusals[f"{name}: {type(error).__name__}: {error}"[:300]] += 1
                except BaseException as error:
                    self.failures.append(error)
                    raise
                self._done.wait(0.05)

    def _write(self, site: Site) -> None:
        number = next(self._numbers)
        try:
            insert(site, self._table, [number])
        except CommitUnknown:
            self.in_doubt.add(number)
            raise
        self.committed.add(number)


@pytest.fixture(params=["direct", "PgBouncer"])
def address(request: pytest.FixtureRequest) -> Iterator[tuple[Address, str]]:
    """An address of a primary, and the URL of the metastore there."""
    with ExitStack() as stack:
        primary = stack.enter_context(servers.postgres())
        init(primary.make("night", servers.hive_schema("postgresql", "4.0.0"))).close()
        address = stack.enter_context(address_of(primary))
        url = address.url("night")
        if request.param == "PgBouncer":
            pooler = servers.pgbouncer(
                primary, "127.0.0.1", address.port, pool_mode="transaction", server_login_retry=1
            )
            url = stack.enter_context(pooler).format(name="night")
        yield address, url


def test_no_failover_loses_a_row(address: tuple[Address, str], tmp_path: Path) -> None:
    """Each pass ends well or says why, and after the night every committed row is there once."""
    leads_to, url = address
    environment = {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_STATE_URL": url, "COMPACTOR_WAREHOUSE": str(tmp_path)}

    def site() -> Site:
        return open_site(configure(flags=dict(SETTINGS), environment=environment))

    with site() as first:
        table = make_table(first, tmp_path)
    with ExitStack() as standbys, Night(site, table) as night:
        for _ in range(PROMOTIONS):
            time.sleep(SECONDS / (PROMOTIONS + 1))
            primary = leads_to.server
            standby = standbys.enter_context(servers.standby_of(primary))
            passes = night.passes.total()
            primary.end(signal.SIGKILL)
            standby.sql("SELECT pg_promote();", "postgres")
            leads_to.server = standby
            leads_to.cut()
            time.sleep(SECONDS / (PROMOTIONS + 1))
            assert night.passes.total() > passes
        night.__exit__()
        with site() as last:
            every_role(last)
            numbers = [row[-2] for row in rows_of(last, table)]
    print(night.passes, night.refusals, len(night.committed), len(night.in_doubt))
    assert night.failures == []
    assert len(numbers) == len(set(numbers))
    assert night.committed <= set(numbers) <= night.committed | night.in_doubt
    assert len(night.committed) > PROMOTIONS
