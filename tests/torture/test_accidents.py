"""A site whose processes are killed and suspended, whose storage fails and whose database is put back from copies.

``TORTURE_SECONDS`` says how long. A reader that uses nothing of the product but the snapshot judges each round by what was
committed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from compactor.site.deployment import configure, open_site
from compactor.site.site import Site
from compactor.state.state_upgrade import init
from tests.model.reader import Snapshot, read_rows
from tests.support import servers
from tests.support.backups import Backup, DumpedBackup
from tests.support.forked import forked
from tests.support.passes import every_role, time_out_all
from tests.support.tables import make_table
from tests.torture import accident_actors
from tests.torture.accident_actors import PARTED, RENAMED, SETTINGS, STEADY, UNSTEADY

SECONDS = float(os.environ.get("TORTURE_SECONDS", "20"))
SEED = os.environ.get("TORTURE_SEED", "1")
ROUND = 25.0
CAST = ("writer", "writer", "reader", "ddl", "worker", "worker", "cleaner", "housekeeper")


class Cast:
    """The processes of one round."""

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self.kills = self.stops = 0
        self._running = [self._start(role) for role in CAST]

    def _start(self, role: str) -> tuple[str, ForkServerProcess]:
        process = forked(accident_actors.play, role, dict(os.environ), str(self._folder), str(self._chance.random()))
        process.start()
        return role, process

    def suffer(self) -> None:
        """Kills or suspends one of them; one that ended by itself is a failure."""
        at = self._chance.randrange(len(self._running))
        role, process = self._running[at]
        assert process.is_alive(), (self._folder / f"log-{role}").read_text()[-3000:]
        assert process.pid is not None
        if role == "ddl" or self._chance.random() < 0.5:  # whoever makes a table half leaves a half-made table
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(self._chance.random() * 2)
            os.kill(process.pid, signal.SIGCONT)
            self.stops += 1
            return
        process.kill()
        process.join()
        self.kills += 1
        self._running[at] = self._start(role)

    def end(self) -> None:
        """Kills all of them."""
        for _, process in self._running:
            process.kill()
            process.join()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A metastore with our own state in it, the way to copy both, and to let its server die and come back."""

    url: str
    backup: Callable[[], Backup | DumpedBackup]
    restart: Callable[[], None] | None = None


@pytest.fixture
def sqlite(tmp_path: Path, empty_metastore: Path) -> Kept:
    database = tmp_path / "metastore.db"
    database.write_bytes(empty_metastore.read_bytes())
    return Kept(url=f"sqlite:///{database}", backup=lambda: Backup(database))


@pytest.fixture(params=["sqlite", *servers.NAMES])
def database(request: pytest.FixtureRequest) -> Iterator[Kept]:
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite")
        return
    with servers.start(request.param) as server:
        url = server.make("accidents", servers.hive_schema(server.kind, "4.0.0"))
        init(url).close()

        def restart() -> None:
            server.end(signal.SIGKILL)
            server.start()

        yield Kept(url=url, backup=lambda: DumpedBackup(server, "accidents"), restart=restart)


def test_no_accident_loses_a_row(tmp_path: Path, database: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """PROTOCOL 11: whatever was committed is read by everybody, and nothing else is, round after round."""
    for name in ("COMPACTOR_METASTORE_URL", "COMPACTOR_STATE_URL"):  # the actors read them, too
        monkeypatch.setenv(name, database.url)
    monkeypatch.setenv("COMPACTOR_WAREHOUSE", str(tmp_path / "warehouse"))
    chance = random.Random(SEED)
    with open_site(configure(flags=dict(SETTINGS), environment=os.environ)) as site:
        (tmp_path / "warehouse").mkdir(exist_ok=True)
        for name in (STEADY, UNSTEADY):
            make_table(site, tmp_path / "warehouse", name)
        backup, end = database.backup(), time.monotonic() + SECONDS
        rounds = kills = stops = restarts = 0
        while time.monotonic() < end or rounds == 0:
            cast = Cast(tmp_path, f"{SEED}-{rounds}")
            try:
                until = time.monotonic() + min(ROUND, max(5.0, SECONDS))
                taken = time.monotonic() + chance.random() * (until - time.monotonic())
                has_copy = False
                while time.monotonic() < until:
                    time.sleep(0.5 + 2 * chance.random())
                    cast.suffer()
                    if database.restart is not None and chance.random() < 0.1:
                        database.restart()
                        restarts += 1
                    if not has_copy and time.monotonic() > taken:
                        backup.take()
                        has_copy = True
            finally:
                cast.end()
            rounds, kills, stops = rounds + 1, kills + cast.kills, stops + cast.stops
            judge(site, tmp_path)
            if has_copy:
                put_back_for_a_while(site, backup, database.backup())
            assert [path.read_text() for path in tmp_path.glob("differs-*")] == []
            # PROTOCOL 11.2: kills and suspensions are no restore; nobody was alive while the copy was in place
            assert [path.name for path in tmp_path.glob("log-*") if "the database is older" in path.read_text()] == []
        compactions = len(site.metastore.entries.history())
        print(f"{rounds} rounds, {kills} kills, {stops} stops, {restarts} restarts, seed {SEED}")
        assert compactions > 0, "".join(path.read_text()[-2000:] for path in tmp_path.glob("log-worker"))


def judge(site: Site, folder: Path) -> None:
    """Compares what is read with the journals; of a transaction that nobody saw end, all or nothing is there."""
    time_out_all(site)
    every_role(site)
    certain, doubtful = journals(folder)
    found = values_of(site, STEADY)
    assert len(found) == len(set(found)), "rows are there twice"
    left = set(found)
    for kind, values in doubtful:
        there = left & values
        assert not there or there == values or kind == "delete", f"half of a transaction: {values}"
        certain = certain - values
        left -= values
    assert left == certain, f"lost {sorted(certain - left)[:9]}, too many {sorted(left - certain)[:9]}"
    for name in (UNSTEADY, RENAMED, PARTED):
        if (folder / name).exists():  # else nobody knows: it was just being made
            assert values_of(site, name) == sorted(json.loads((folder / name).read_text())), name


def values_of(site: Site, name: str) -> list[int]:
    """Returns the values of ``a`` that a reader of another hand sees now, in every partition, sorted."""
    table = site.metastore.catalog.table("default", name)
    txns = site.metastore.transactions.snapshot()
    snapshot = Snapshot.of(str(txns), str(site.write_ids(table, txns)))
    parts = [part.location for part in site.metastore.catalog.partitions(table)] if table.partition_keys else None
    places = [table.location] if parts is None else parts
    return sorted(row[0] for place in places for _, row in read_rows(Path(place), snapshot, ("int", "string")))


def journals(folder: Path) -> tuple[set[int], list[tuple[str, set[int]]]]:
    """Returns the values that are committed for certain, and the transactions of which only the database knows the end."""
    certain: set[int] = set()
    doubtful: list[tuple[str, set[int]]] = []
    for path in folder.glob("journal-*"):
        tried: tuple[str, set[int]] | None = None
        aborts = False
        for line in path.read_text().splitlines():
            try:
                word, *rest = json.loads(line)
            except ValueError:
                continue  # it was killed while it wrote the line
            if word == "try":
                if tried is not None:
                    doubtful.append(tried)
                tried, aborts = (rest[0], set(rest[1])), False
            elif word == "abort":
                aborts = True
            elif word == "failed":  # the answer to a commit may have been lost with it
                assert tried is not None
                doubtful.append(tried)
                tried = None
            elif tried is not None:
                kind, values = tried
                certain = certain - values if kind == "delete" else certain if aborts else certain | values
                tried = None
        if tried is not None and not aborts:
            doubtful.append(tried)
    return certain, doubtful


def put_back_for_a_while(site: Site, backup: Backup | DumpedBackup, newest: Backup | DumpedBackup) -> None:
    """Puts an older copy back and lets every role run; then the newer database comes back, and nothing is missing."""
    newest.take()
    before = values_of(site, STEADY)
    backup.restore()
    for _ in range(2):
        try:
            every_role(site)
        except Exception as error:  # noqa: BLE001 - refusing is what is wanted
            print(f"refused: {str(error)[:200]}")
    newest.restore()
    assert values_of(site, STEADY) == before
