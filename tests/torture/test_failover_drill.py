"""A failover by day and one at night: a replica takes over, twice in a row, and everybody goes on.

``TORTURE_SECONDS`` says how long the drill takes.
"""

from __future__ import annotations

import itertools
import os
import re
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
from tests.support.patience import PATIENCE, until
from tests.support.ports import free_port
from tests.support.replicas import fail_over, replica_of, replicating, switch_over
from tests.support.switchover import Address, address_of
from tests.support.tables import insert, make_table, rows_of
from tests.torture.accident_actors import SETTINGS

SECONDS = float(os.environ.get("TORTURE_SECONDS", "20"))
CHANGES = (switch_over, fail_over)
WRITERS = 2
_CREATE_USER = "; CREATE USER compactor@localhost; GRANT ALL ON night.* TO compactor@localhost;"


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
        names = ("initiator", "worker", "cleaner", "housekeeper")
        self._work = dict(zip(names, ROLES, strict=True)) | {f"writer {n}": self._write for n in range(WRITERS)}
        self._threads = [threading.Thread(target=self._repeat, args=work) for work in self._work.items()]

    def __enter__(self) -> Night:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()

    def goes_on(self) -> bool:
        """Waits until each thread has ended a pass well."""
        before = Counter(self.passes)
        return until("everybody goes on", lambda: all(self.passes[name] > before[name] for name in self._work))

    def _repeat(self, name: str, act: Callable[[Site], object]) -> None:
        with self._site() as site:
            while not self._done.is_set():
                try:
                    act(site)
                    self.passes[name] += 1
                except CompactorError as error:
                    self.refusals[re.sub("[0-9]+", "N", f"{name}: {type(error).__name__}: {error}")[:300]] += 1
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


@pytest.fixture(params=["PostgreSQL", "PostgreSQL behind PgBouncer", "MariaDB", "MySQL"])
def address(request: pytest.FixtureRequest) -> Iterator[tuple[Address, str]]:
    """An address of a primary, and the URL of the metastore there."""
    with ExitStack() as stack:
        kind, _, pooler = request.param.partition(" behind ")
        if kind == "PostgreSQL":
            primary = stack.enter_context(servers.postgres())
            schema = servers.hive_schema("postgresql", "4.0.0")
        else:
            product = "mysql" if kind == "MySQL" else None
            primary = stack.enter_context(servers.mariadb(free_port(), product=product, options=replicating(product)))
            # root may write where read_only forbids it
            schema = servers.hive_schema("mysql", "4.0.0") + _CREATE_USER
        init(primary.make("night", schema)).close()
        address = stack.enter_context(address_of(primary))
        url = address.url("night").replace("root@", "compactor@")
        if pooler:
            url = stack.enter_context(
                servers.pgbouncer(primary, "127.0.0.1", address.port, pool_mode="transaction", server_login_retry=1)
            ).format(name="night")
        yield address, url


def test_no_failover_loses_a_row(address: tuple[Address, str], tmp_path: Path) -> None:
    """Each pass ends well or says why, and after the night every committed row is there once."""
    leads_to, url = address
    environment = {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_STATE_URL": url, "COMPACTOR_WAREHOUSE": str(tmp_path)}

    def site() -> Site:
        return open_site(configure(flags=dict(SETTINGS), environment=environment))

    with site() as first:
        table = make_table(first, tmp_path)
    with ExitStack() as replicas, Night(site, table) as night:
        for change in CHANGES:
            primary = leads_to.server
            replica = replicas.enter_context(replica_of(primary))
            time.sleep(SECONDS / (len(CHANGES) + 1))
            change(primary, replica)
            leads_to.server = replica
            if not primary.is_running:
                leads_to.cut()
            assert night.goes_on()
        time.sleep(SECONDS / (len(CHANGES) + 1))
        night.__exit__()
        with site() as last:
            every_role(last)
            numbers = [row[-2] for row in rows_of(last, table)]
    print(night.passes, night.refusals, len(night.committed), len(night.in_doubt))
    assert night.failures == []
    assert len(numbers) == len(set(numbers))
    assert night.committed <= set(numbers) <= night.committed | night.in_doubt
    assert len(night.committed) > len(CHANGES)
