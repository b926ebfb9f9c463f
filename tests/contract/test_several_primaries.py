"""Two servers that both accept writes, which Compactor does not support: its locks are rows of one server.

A commit that the servers refuse is known to have changed nothing, and the doctor warns. With one writer all is well.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compactor.base.errors import CommitUnknown, TryAgain
from compactor.compaction.states import State
from compactor.database.engine import Database, open_database
from compactor.doctor.server_checks import check_servers
from compactor.metastore.metastore import open_metastore
from compactor.requests.request import request_compaction
from compactor.settings.precedence import Settings
from compactor.site.finding import Level
from compactor.site.site import Site
from compactor.state.state_upgrade import init
from compactor.storage.local import LocalStorage
from tests.support import servers
from tests.support.passes import clean_all, every_role
from tests.support.patience import PATIENCE, until
from tests.support.replicas import several_primaries
from tests.support.tables import insert, make_table, rows_of, with_settings

ROUNDS = 20
#: The warning's words for each.
PRIMARIES = {
    "mysql group replication": ("mysql", "auto_increment_increment is 7, group_replication_single_primary_mode is OFF"),
    "mariadb galera": (None, "auto_increment_increment is 2, wsrep_on is ON"),
}

_SECOND_GOES_ON = {
    "mysql group replication": "SELECT 1;",
    "mariadb galera": "SET GLOBAL wsrep_provider_options = 'pc.weight=2';",
}
_FIRST_GIVES_UP = {
    "mysql group replication": "SET GLOBAL group_replication_unreachable_majority_timeout = 3;",
    "mariadb galera": "SELECT 1;",
}


@pytest.fixture(scope="module", params=PRIMARIES)
def primaries(request: pytest.FixtureRequest) -> Iterator[tuple[str, servers.Server, servers.Server]]:
    with several_primaries(PRIMARIES[request.param][0]) as (first, second):
        first.make("pair", "CREATE TABLE x (k INT PRIMARY KEY, v INT); INSERT INTO x VALUES (1, 0), (2, 0), (3, 0);")
        until("the table", lambda: "x" in second.sql("SHOW TABLES IN pair;", "mysql").split())
        until("its rows", lambda: second.sql("SELECT COUNT(*) FROM x;", "pair").strip() == "3")
        yield request.param, first, second


class Pair:
    """A database on two servers. Both write at the same time, each its own statements."""

    def __init__(self, first: servers.Server, second: servers.Server, stack: ExitStack) -> None:
        self.databases = [open_database(server.url.format(name="pair")) for server in (first, second)]
        for database in self.databases:
            stack.callback(database.close)
        self.refusals: list[str] = []
        self.others: list[BaseException] = []
        self.commits = 0

    def write(self, *statements: tuple[str, ...]) -> None:
        """Runs the statements of each, and commits once both have run theirs."""
        barrier = threading.Barrier(2, timeout=PATIENCE)
        threads = [
            threading.Thread(target=self._write, args=(database, work, barrier))
            for database, work in zip(self.databases, statements, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)

    def _write(self, database: Database, statements: tuple[str, ...], barrier: threading.Barrier) -> None:
        try:
            with database.write() as conn:
                for statement in statements:
                    conn.exec_driver_sql(statement)
                barrier.wait()
            self.commits += 1
        except TryAgain as error:
            self.refusals.append(str(error))
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            self.others.append(error)


@pytest.fixture
def pair(primaries: tuple[str, servers.Server, servers.Server]) -> Iterator[Pair]:
    with ExitStack() as stack:
        yield Pair(*primaries[1:], stack)


def test_a_commit_that_the_primaries_refuse_has_changed_nothing(
    pair: Pair, primaries: tuple[str, servers.Server, servers.Server]
) -> None:
    """It is tried again, and is not in doubt."""
    add = ("UPDATE x SET v = v + 1 WHERE k = 1",)
    for _ in range(ROUNDS):
        pair.write(add, add)
    assert pair.others == []
    assert pair.commits + len(pair.refusals) == 2 * ROUNDS
    assert len(pair.refusals) >= ROUNDS // 2, "the rounds conflict"
    assert all("nothing was committed" in refusal or "Deadlock" in refusal for refusal in pair.refusals)
    value = "SELECT v FROM x WHERE k = 1;"
    for server in primaries[1:]:
        assert until("all commits", lambda s=server: int(s.sql(value, "pair")) == pair.commits)


def test_a_row_lock_excludes_nobody_on_another_primary(pair: Pair) -> None:
    """Why one of them has to be the only writer: both hold the row that stands for a mutex, and both commit."""
    lock = "SELECT v FROM x WHERE k = 1 FOR UPDATE"
    pair.write((lock, "UPDATE x SET v = v + 1 WHERE k = 2"), (lock, "UPDATE x SET v = v + 1 WHERE k = 3"))
    assert (pair.commits, pair.refusals, pair.others) == (2, [], [])


def stands_still(server: servers.Server) -> bool:
    assert server.process is not None
    threads = Path(f"/proc/{server.process.pid}/task").glob("*/stat")
    return {thread.read_text("utf-8").rpartition(")")[2].split()[0] for thread in threads} == {"T"}


def insert_and_suspend(database: Database, other: servers.Server) -> None:
    """Inserts a row, and suspends the other server before the commit."""
    assert other.process is not None
    with database.write() as conn:
        conn.exec_driver_sql("INSERT INTO x VALUES (1)")
        other.process.send_signal(signal.SIGSTOP)
        until("its threads stand still", lambda: stands_still(other))


@pytest.mark.parametrize("name", PRIMARIES)
def test_a_commit_is_in_doubt_where_the_other_primary_cannot_be_asked(name: str) -> None:
    """The primary that is cut off says that the commit failed. The other one has it, and is who goes on."""
    with several_primaries(PRIMARIES[name][0]) as (first, second), ExitStack() as stack:
        first.make("pair", "CREATE TABLE x (k INT PRIMARY KEY);")
        second.sql(_SECOND_GOES_ON[name], "mysql")
        first.sql(_FIRST_GIVES_UP[name], "mysql")
        until("the table", lambda: "x" in second.sql("SHOW TABLES IN pair;", "mysql").split())
        database = open_database(first.url.format(name="pair"))
        stack.callback(database.close)
        assert second.process is not None
        stack.callback(second.process.send_signal, signal.SIGCONT)
        with pytest.raises(CommitUnknown):
            insert_and_suspend(database, second)
        second.process.send_signal(signal.SIGCONT)
        assert until("the row on the other one", lambda: second.sql("SELECT k FROM x;", "pair").strip() == "1")


def test_the_doctor_warns_and_one_writer_is_well(
    primaries: tuple[str, servers.Server, servers.Server], tmp_path: Path
) -> None:
    name, first, second = primaries
    url = first.make("night", servers.hive_schema("mysql", "4.0.0"))
    metastore = open_metastore("default", url)
    with ExitStack() as stack:
        stack.callback(metastore.close)
        state = init(url)
        stack.callback(state.close)
        site = with_settings(Site.here("default", metastore, state, LocalStorage(), Settings.of()))
        (finding,) = check_servers(site)
        assert (finding.level, finding.subject) == (Level.WARN, "primaries")
        assert PRIMARIES[name][1] in finding.found
        metastore.embedded_catalog.create_database("default", str(tmp_path))
        table = make_table(site, tmp_path)
        for start in (0, 4):
            insert(site, table, range(start, start + 4))
        request_compaction(site, table=str(table), type="major")
        every_role(site)
        clean_all(site)  # it waits longer where identifiers have gaps, as with increments above 1
        (entry,) = metastore.entries.history()
        assert (entry.state, len(rows_of(site, table))) == (State.SUCCEEDED, 8)
        count = "SELECT COUNT(*) FROM COMPLETED_COMPACTIONS;"
        assert until("the same rows", lambda: second.sql(count, "night").strip() == "1")
