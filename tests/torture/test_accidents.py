"""A site whose processes are killed and suspended, whose storage fails and whose database is put back from copies.

``TORTURE_SECONDS`` says how long. A reader that knows what was committed judges each round.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from compactor.deployment import configure, open_site
from compactor.service.site import Site
from tests.support.backups import Backup
from tests.support.forked import forked
from tests.support.passes import every_role, time_out_all
from tests.support.tables import make_table, rows_of
from tests.torture import accident_actors
from tests.torture.accident_actors import SETTINGS, STEADY, UNSTEADY

SECONDS = float(os.environ.get("TORTURE_SECONDS", "20"))
SEED = os.environ.get("TORTURE_SEED", "1")
ROUND = 25.0
CAST = ("writer", "writer", "reader", "ddl", "worker", "worker", "cleaner", "housekeeper")


class Cast:
    """The processes of one round."""

    def __init__(self, url: str, folder: Path, seed: str) -> None:
        self._url, self._folder = url, folder
        self._chance = random.Random(seed)
        self.kills = self.stops = 0
        self._running = [self._start(role) for role in CAST]

    def _start(self, role: str) -> tuple[str, ForkServerProcess]:
        process = forked(accident_actors.play, role, self._url, str(self._folder), str(self._chance.random()))
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


def test_no_accident_loses_a_row(tmp_path: Path, empty_metastore: Path) -> None:
    """PROTOCOL 11: whatever was committed is read by everybody, and nothing else is, round after round."""
    database = tmp_path / "metastore.db"
    database.write_bytes(empty_metastore.read_bytes())
    url, chance = f"sqlite:///{database}", random.Random(SEED)
    environment = {"COMPACTOR_METASTORE_URL": url, "COMPACTOR_WAREHOUSE": str(tmp_path / "warehouse")}
    with open_site(configure(flags=dict(SETTINGS), environment=environment)) as site:
        (tmp_path / "warehouse").mkdir(exist_ok=True)
        for name in (STEADY, UNSTEADY):
            make_table(site, tmp_path / "warehouse", name)
        backup, end, rounds, kills, stops = Backup(database), time.monotonic() + SECONDS, 0, 0, 0
        while time.monotonic() < end or rounds == 0:
            cast = Cast(url, tmp_path, f"{SEED}-{rounds}")
            try:
                until = time.monotonic() + min(ROUND, max(5.0, SECONDS))
                taken = time.monotonic() + chance.random() * (until - time.monotonic())
                has_copy = False
                while time.monotonic() < until:
                    time.sleep(0.5 + 2 * chance.random())
                    cast.suffer()
                    if not has_copy and time.monotonic() > taken:
                        backup.take()
                        has_copy = True
            finally:
                cast.end()
            rounds, kills, stops = rounds + 1, kills + cast.kills, stops + cast.stops
            judge(site, tmp_path)
            if has_copy:
                put_back_for_a_while(site, tmp_path, backup)
            assert [path.read_text() for path in tmp_path.glob("differs-*")] == []
            # PROTOCOL 11.2: kills and suspensions are no restore; nobody was alive while the copy was in place
            assert [path.name for path in tmp_path.glob("log-*") if "the database is older" in path.read_text()] == []
        compactions = len(site.metastore.entries.history())
        print(f"{rounds} rounds, {kills} kills, {stops} stops, {compactions} entries in the history, seed {SEED}")
        assert compactions > 0, "".join(path.read_text()[-2000:] for path in tmp_path.glob("log-worker"))


def judge(site: Site, folder: Path) -> None:
    """Compares what is read with the journals; of a transaction that nobody saw end, all or nothing is there."""
    time_out_all(site)
    every_role(site)
    certain, doubtful = journals(folder)
    found = [row[3] for row in rows_of(site, site.metastore.catalog.table("default", STEADY))]
    assert len(found) == len(set(found)), "rows are there twice"
    left = set(found)
    for kind, values in doubtful:
        there = left & values
        assert not there or there == values or kind == "delete", f"half of a transaction: {values}"
        certain = certain - values
        left -= values
    assert left == certain, f"lost {sorted(certain - left)[:9]}, too many {sorted(left - certain)[:9]}"
    unsteady = folder / "unsteady"
    if unsteady.exists():
        rows = rows_of(site, site.metastore.catalog.table("default", UNSTEADY))
        assert sorted(row[3] for row in rows) == sorted(json.loads(unsteady.read_text()))


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


def put_back_for_a_while(site: Site, folder: Path, backup: Backup) -> None:
    """Puts an older copy back and lets every role run; then the newer database comes back, and nothing is missing."""
    newest = Backup(folder / "metastore.db")
    newest.take()
    before = rows_of(site, site.metastore.catalog.table("default", STEADY))
    backup.restore()
    for _ in range(2):
        try:
            every_role(site)
        except Exception as error:  # noqa: BLE001 - refusing is what is wanted
            print(f"refused: {str(error)[:200]}")
    newest.restore()
    assert rows_of(site, site.metastore.catalog.table("default", STEADY)) == before
