"""A process of the command line that is suspended between a decision and its effect (PROTOCOL 11.8).

As a paused machine or a hung mount does it: the table is dropped, made again, renamed or moved meanwhile.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compactor.base.steps import CommandStep, Step
from compactor.cleaner.cleaner import clean
from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.requests.restore import restore
from compactor.site.site import Site
from tests.support.backups import Backup
from tests.support.passes import clean_all, compact, lose_cleaners, time_out_all
from tests.support.patience import PATIENCE, until
from tests.support.tables import insert, make_table, rows_of, with_settings
from tests.support.watching import names_in

_PROGRAM = "from compactor.cli import main; main()"
_STOPPED = "T"  #: the state of such a process in /proc


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@contextmanager
def suspended(
    url: str, step: Step | CommandStep, *arguments: str
) -> Iterator[Callable[[], subprocess.CompletedProcess[str]]]:
    """Yields once the command is suspended at ``step``; what is yielded lets it go on and returns how it ended."""
    environment = {**os.environ, "COMPACTOR_METASTORE_URL": url, "COMPACTOR_STOP_AT": step.name}
    given = ("hive.txn.opentxn.timeout=1ms", "hive.compactor.abortedtxn.threshold=0", "compactor.forget.grace=0s")
    settings = [part for one in given for part in ("--set", one)]
    command = [sys.executable, "-c", _PROGRAM, *settings, *arguments]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def go_on() -> subprocess.CompletedProcess[str]:
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=PATIENCE)
        return subprocess.CompletedProcess(command, process.returncode, out, err)

    try:
        until(f"the command is suspended at {step.name}", lambda: _state(process) == _STOPPED)
        yield go_on
    finally:
        process.kill()
        process.communicate()


def _state(process: subprocess.Popen[str]) -> str:
    assert process.poll() is None, process.communicate()
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def filled(site: Site, warehouse: Path) -> Table:
    """Creates the table with names that a second life of it uses again."""
    table = make_table(site, warehouse)
    for start in range(0, 30, 10):
        insert(site, table, range(start, start + 10))
    return table


def made_again(site: Site, warehouse: Path, table: Table) -> Table:
    site.metastore.embedded_catalog.drop_table(table)
    shutil.rmtree(table.location)
    return filled(site, warehouse)


def renamed_and_made_again(site: Site, warehouse: Path, table: Table) -> Table:
    """The old table keeps its files elsewhere, as Hive's RENAME of a managed table moves them."""
    moved = Path(table.location).with_name("u")
    Path(table.location).rename(moved)
    site.metastore.embedded_catalog.drop_table(table)
    return filled(site, warehouse)


@pytest.mark.parametrize("step", [Step.CLEANING, Step.HIDDEN], ids=lambda step: step.name)
def test_a_suspended_cleaner_removes_nothing_of_a_copy_from_before_the_compaction(
    site: Site, warehouse: Path, metastore_url: str, step: Step
) -> None:
    """PROTOCOL 11.8.4: what is obsolete beside the base holds the only rows where there is no base."""
    table = filled(site, warehouse)
    snapshot = shutil.copytree(table.location, Path(table.location).with_name("snapshot"))
    wanted = rows_of(site, table)
    compact(site)
    with suspended(metastore_url, step, "run", "cleaner", "--once") as go_on:
        shutil.rmtree(table.location)
        shutil.copytree(snapshot, table.location)
        done = go_on()
    assert rows_of(site, table) == wanted, done.stderr
    lose_cleaners(site)
    time_out_all(site)
    for _ in range(3):
        clean(site)
    assert rows_of(site, table) == wanted


@pytest.mark.parametrize("change", [made_again, pytest.param(renamed_and_made_again, marks=pytest.mark.whole)])
@pytest.mark.parametrize("step", [Step.CLEANING, Step.HIDDEN], ids=lambda step: step.name)
def test_a_suspended_cleaner_removes_nothing_of_another_table(
    site: Site, warehouse: Path, metastore_url: str, step: Step, change: Callable[[Site, Path, Table], Table]
) -> None:
    """177 of 180 rows of the new table were removed, exit code 0, six times of six."""
    table = filled(site, warehouse)
    compact(site)
    with suspended(metastore_url, step, "run", "cleaner", "--once") as go_on:
        new = change(site, warehouse, table)
        wanted = rows_of(site, new)
        done = go_on()
    assert rows_of(site, new) == wanted, done.stderr
    assert len(wanted) == 30
    for _ in range(2):
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, "run", "cleaner", "--once"],
            env={**os.environ, "COMPACTOR_METASTORE_URL": metastore_url},
            check=False,
            capture_output=True,
        )
    assert rows_of(site, new) == wanted


def test_a_suspended_cleaner_of_aborted_writes_removes_nothing_of_another_table(
    site: Site, warehouse: Path, metastore_url: str
) -> None:
    table = make_table(site, warehouse)
    for start in range(0, 30, 10):
        insert(site, table, range(start, start + 10), commits=False)
    with suspended(metastore_url, Step.CLEANING, "run", "cleaner", "--once") as go_on:
        new = made_again(site, warehouse, table)
        wanted = rows_of(site, new)
        done = go_on()
    assert (rows_of(site, new), len(wanted)) == (wanted, 30), done.stderr


@pytest.mark.parametrize("step", [Step.RECORDED, Step.MANIFEST_WRITTEN], ids=lambda step: step.name)
def test_a_suspended_worker_names_nothing_in_another_table(
    site: Site, warehouse: Path, metastore_url: str, step: Step
) -> None:
    """Its row of the queue went with the table. Later it holds the database, and a drop waits for it."""
    table = filled(site, warehouse)
    request_compaction(site, table=str(table), type="major")
    with suspended(metastore_url, step, "run", "worker", "--once", "--in-process") as go_on:
        new = made_again(site, warehouse, table)
        wanted = rows_of(site, new)
        done = go_on()
    assert (rows_of(site, new), len(wanted)) == (wanted, 30), done.stderr


def test_a_suspended_cleaner_takes_nothing_away_that_an_undo_put_back(
    site: Site, warehouse: Path, metastore_url: str
) -> None:
    """PROTOCOL 11.8.3: what is back is the same directory, and another cleaner had ended the entry."""
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", compactor_quarantine="7d")
    table = filled(site, warehouse)
    wanted = rows_of(site, table)
    done = compact(site)
    settings = ("--set", "compactor.quarantine=7d")
    with suspended(metastore_url, Step.QUARANTINED, *settings, "run", "cleaner", "--once") as go_on:
        lose_cleaners(site)
        clean_all(site)
        restore(site, str(table), None, done.entry.id, "ann")
        ended = go_on()
    assert rows_of(site, table) == wanted, ended.stderr


def test_a_suspended_cleaner_removes_nothing_under_a_database_that_was_put_back(
    site: Site, warehouse: Path, metastore_url: str, tmp_path: Path
) -> None:
    """PROTOCOL 11.2.7: the older database does not know the compaction."""
    filled(site, warehouse)
    clean(site)
    before, backup = names_in(warehouse / "t"), Backup(tmp_path / "metastore.db")
    backup.take()
    compact(site)
    with suspended(metastore_url, Step.CLEANING, "run", "cleaner", "--once") as go_on:
        backup.restore()
        ended = go_on()
    assert before < names_in(warehouse / "t")
    assert "the database is older" in ended.stderr


def test_a_suspended_undo_puts_nothing_back_where_the_table_was_emptied(
    site: Site, warehouse: Path, metastore_url: str
) -> None:
    """PROTOCOL 11.15.11: its lock timed out, and a TRUNCATE removed every directory that readers see."""
    site = with_settings(site, hive_txn_opentxn_timeout="1ms", compactor_quarantine="7d")
    table = filled(site, warehouse)
    done = compact(site)
    clean_all(site)
    undo = ("--set", "compactor.quarantine=7d", "restore", str(table), "--before", str(done.entry.id), "--yes")
    with suspended(metastore_url, CommandStep.PUT_BACK, *undo) as go_on:
        time_out_all(site)
        for name in names_in(warehouse / "t"):
            if not name.startswith("."):
                shutil.rmtree(warehouse / "t" / name)
        ended = go_on()
    assert (rows_of(site, table), ended.returncode != 0) == ([], True), ended.stderr
    assert "has timed out" in ended.stderr
