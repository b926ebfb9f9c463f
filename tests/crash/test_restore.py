"""Undoing a compaction, killed at every step while readers look: they see the same rows, and a second call goes on (PROTOCOL
11.15)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compactor.base.errors import CompactorError
from compactor.base.steps import CommandStep, Step
from compactor.locking.lock_types import LockType
from compactor.metastore.catalog.values import Table
from compactor.site.site import Site
from tests.crash.test_steps import with_story
from tests.support.kept_tables import KeptTables
from tests.support.oracle import read_lines
from tests.support.passes import clean_all, compact, every_role, rows_without_visibility, time_out_all
from tests.support.patience import until
from tests.support.tables import delete, entity_of, insert, rows_of, with_settings
from tests.support.watching import names_in

_PROGRAM = "from compactor.cli import main; main()"
#: The point, and how often it is reached before the process dies: after some inputs, all of them, and the output.
CASES = [
    (CommandStep.PUT_BACK, 1),
    (CommandStep.PUT_BACK, 4),
    (Step.QUARANTINED, 1),
    (CommandStep.OUTPUT_TAKEN, 1),
]


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", compactor_quarantine="7d")


@pytest.fixture
def undone(site: Site, warehouse: Path, kept_tables: KeptTables) -> tuple[Table, list[Any], dict[str, int], int]:
    """A table with a story, compacted and cleaned; its rows, the files from before, and the compaction."""
    plain = with_settings(site, hive_txn_opentxn_timeout="1ms")
    table = kept_tables.get(plain, warehouse, with_story)
    before = {f.path: f.length for f in site.storage.listing(table.location).files}
    rows = read_lines(site.metastore, table)
    entry = compact(site).entry.id
    clean_all(site)
    return table, rows, before, entry


def look(site: Site, table: Table) -> list[Any] | None:
    """Reads as Hive and Trino do, under a shared lock; None if that is not granted at once."""
    (txn,) = site.metastore.transactions.open("reader", site.host)
    try:
        request = site.target(entity_of(table)).lock(LockType.SHARED_READ)
        if site.metastore.locks.try_acquire(txn, [request], "reader", site.host) is None:
            return None
        return read_lines(site.metastore, table)
    finally:
        site.metastore.transactions.commit(txn)


def look_without_lock(site: Site, table: Table) -> list[Any] | None:
    """Reads as one who asks nobody; None if a file that was listed is gone."""
    try:
        return read_lines(site.metastore, table)
    except (OSError, CompactorError):
        return None


def run(site: Site, table: Table, url: str, entry: int, wanted: list[Any], die_at: str | None = None) -> int:
    """Runs the command in a process of its own, and reads until it ends; returns how it ended."""
    environment = {**os.environ, "COMPACTOR_METASTORE_URL": url}
    if die_at is not None:
        environment["COMPACTOR_DIE_AT"] = die_at
    command = [sys.executable, "-c", _PROGRAM, "restore", str(table), "--before", str(entry), "--yes"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    while process.poll() is None:
        for found in (look(site, table), look_without_lock(site, table)):
            assert found is None or found == wanted
    _, said = process.communicate()
    print(said.decode())
    return process.returncode


@pytest.mark.parametrize(("step", "nth"), CASES, ids=lambda part: getattr(part, "name", str(part)))
def test_a_killed_restore_changes_no_row_and_a_second_call_goes_on(
    site: Site,
    undone: tuple[Table, list[Any], dict[str, int], int],
    metastore_url: str,
    step: Step | CommandStep,
    nth: int,
) -> None:
    table, rows, before, entry = undone
    assert run(site, table, metastore_url, entry, rows, f"{step.name}:{nth}") == -signal.SIGKILL
    assert read_lines(site.metastore, table) == rows
    assert rows_without_visibility(site, table) == rows_of(site, table)
    time_out_all(site)  # the lock of the dead process
    every_role(site)
    assert read_lines(site.metastore, table) == rows
    is_done = step in (Step.QUARANTINED, CommandStep.OUTPUT_TAKEN)
    assert run(site, table, metastore_url, entry, rows) == (3 if is_done else 0)
    assert {f.path: f.length for f in site.storage.listing(table.location).files} == {
        path: length
        for path, length in before.items()
        if "delta_0000010" not in path  # aborted
    }
    assert read_lines(site.metastore, table) == rows


def test_what_a_killed_restore_left_is_obsolete_again(
    site: Site, undone: tuple[Table, list[Any], dict[str, int], int], metastore_url: str
) -> None:
    """Nobody calls a second time: the next compaction and cleaning leave nothing but what they keep."""
    table, rows, _, entry = undone
    assert run(site, table, metastore_url, entry, rows, "PUT_BACK:2") == -signal.SIGKILL
    time_out_all(site)
    insert(site, table, [5000])
    delete(site, table, [5000])
    (output,) = compact(site).output
    clean_all(site)
    assert read_lines(site.metastore, table) == rows
    until("the lock is gone", lambda: site.metastore.locks.show() == [])
    assert {name for name in names_in(Path(table.location)) if not name.startswith(".")} == {output}
