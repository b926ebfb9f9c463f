"""A person's commands about directories in doubt, killed at every step: no row is lost, and a second call ends the doubt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.base.steps import CommandStep
from compactor.metastore.catalog.values import Table
from compactor.requests.advance import measure_gap
from compactor.site.site import Site
from tests.support.backups import Backup, without_memory
from tests.support.passes import clean_all, compact, every_role, time_out_all
from tests.support.tables import insert, make_table, rows_of, with_settings

_PROGRAM = "from compactor.cli import main; main()"


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(without_memory(deployment), hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def restored(site: Site, warehouse: Path, tmp_path: Path) -> tuple[Table, list[tuple[object, ...]]]:
    """A table with a base of a compaction and a delta that its restored metastore does not know, and its rows before."""
    table, backup = make_table(site, warehouse), Backup(tmp_path / "metastore.db")
    insert(site, table, [1, 2])
    insert(site, table, [3])
    site.metastore.claim_token.get_or_create()  # as an earlier compaction of any table has made it
    backup.take()
    compact(site)
    clean_all(site)
    insert(site, table, [4])
    rows = rows_of(site, table)
    backup.restore()
    return table, rows


def run(url: str, *arguments: str, die_at: CommandStep | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COMPACTOR_METASTORE_URL": url}
    if die_at is not None:
        environment["COMPACTOR_DIE_AT"] = die_at.name
    command = [sys.executable, "-c", _PROGRAM, "--set", "hive.txn.opentxn.timeout=1ms", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("step", [CommandStep.KEPT, CommandStep.WRITE_IDS_RAISED], ids=lambda step: step.name)
def test_a_killed_resolve(
    site: Site, restored: tuple[Table, list[object]], metastore_url: str, step: CommandStep
) -> None:
    """PROTOCOL 11.4: every role runs between the crash and the second call."""
    table, rows = restored
    killed = run(metastore_url, "resolve", str(table), "--keep-all", "--yes", die_at=step)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    time_out_all(site)
    every_role(site)
    again = run(metastore_url, "resolve", str(table), "--keep-all", "--yes")
    assert again.returncode == 0, again.stderr
    assert rows_of(site, table) == rows
    every_role(site)
    assert rows_of(site, table) == rows


@pytest.mark.parametrize(
    "step",
    [CommandStep.TRANSACTIONS_RAISED, CommandStep.WRITE_IDS_RAISED],
    ids=lambda step: step.name,
)
def test_a_killed_advance(
    site: Site, restored: tuple[Table, list[object]], metastore_url: str, step: CommandStep
) -> None:
    """PROTOCOL 11.4."""
    table, rows = restored
    killed = run(metastore_url, "metastore", "advance", "--keep-all", "--yes", die_at=step)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    time_out_all(site)
    every_role(site)
    assert run(metastore_url, "metastore", "advance", "--keep-all", "--yes").returncode == 0
    assert (measure_gap(site).directories, rows_of(site, table)) == ([], rows)
    every_role(site)
    assert rows_of(site, table) == rows


def test_a_resolve_that_was_killed_after_it_set_a_directory_aside(
    site: Site, restored: tuple[Table, list[object]], metastore_url: str
) -> None:
    """PROTOCOL 11.4: what is set aside stays where it is, and the rest is still in doubt."""
    table, rows = restored
    late = "delta_0000003_0000003_0000"
    options = ["resolve", str(table), "--keep-all", "--quarantine", late, "--yes"]
    killed = run(metastore_url, *options, die_at=CommandStep.SET_ASIDE)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    time_out_all(site)  # the lock of the killed command
    every_role(site)
    again = run(metastore_url, "resolve", str(table), "--keep-all", "--yes")
    assert again.returncode == 0, again.stderr
    every_role(site)
    assert rows_of(site, table) == [row for row in rows if row[-2] != 4]
    assert [path.name.endswith(late) for path in Path(table.location).glob(".compactor_in_doubt_*")] == [True]
