"""A worker in a separate process is stopped by `compactor abort compaction`, whichever process lives or dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from compactor.acid.names import parse_staging
from compactor.base.ids import TxnId
from compactor.base.steps import Step
from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from compactor.metastore.catalog.values import Table
from compactor.metastore.queue.worker_claims import ABORT_MESSAGE
from compactor.requests.request import request_compaction
from compactor.site.lost_workers import repair
from compactor.site.site import Site
from compactor.worker.ending import Result
from tests.support import roles
from tests.support.forked import forked
from tests.support.passes import compact
from tests.support.patience import PATIENCE, until
from tests.support.tables import insert, make_table, rows_of, with_settings
from tests.support.watching import names_in

_PROGRAM = "from compactor.cli import main; main()"


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms")


@pytest.fixture
def table(site: Site, warehouse: Path) -> Table:
    table = make_table(site, warehouse)
    insert(site, table, range(6))
    insert(site, table, range(6, 12))
    return table


@pytest.fixture
def signs(tmp_path: Path) -> Path:
    path = tmp_path / "signs"
    path.mkdir()
    return path


@contextmanager
def worker_that_waits(site: Site, table: Table, metastore_url: str, signs: Path) -> Iterator[tuple[BaseProcess, Entry]]:
    """Yields a process whose units are done and staged; it continues when ``go`` appears."""
    request_compaction(site, table=str(table), type="major")
    process = forked(roles.slow_worker, metastore_url, str(signs))
    process.start()
    try:
        until("the worker has staged", (signs / "begun").exists)
        (entry,) = site.metastore.entries.working()
        assert entry.txn_id in {parse_staging(name) for name in names_in(Path(table.location))}
        yield process, entry
    finally:
        process.kill()
        process.join(PATIENCE)


def abort(metastore_url: str, entry: Entry, *options: str) -> str:
    """Returns the command's output."""
    environment = os.environ | {"COMPACTOR_METASTORE_URL": metastore_url}
    command = [sys.executable, "-c", _PROGRAM, *options, "abort", "compaction", str(entry.id)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    return done.stdout


def go_on(process: BaseProcess, signs: Path) -> Result:
    (signs / "go").touch()
    process.join(PATIENCE)
    assert process.exitcode == 0
    return Result[(signs / "fate").read_text()]


def assert_aborted(site: Site, table: Table, entry: Entry, names: set[str]) -> None:
    """One row of the history, nothing in the queue, nothing new in storage, nothing open; and the table can go on."""
    ended = site.metastore.entries.get(entry.id)
    assert (ended.state, ended.error) == (State.ABORTED, ABORT_MESSAGE)
    assert site.metastore.entries.queue() == []
    assert site.metastore.transactions.open_transactions() == []
    assert site.metastore.transactions.state(entry.txn_id or TxnId(0)) == "a"
    assert names_in(Path(table.location)) == names
    assert compact(site).result is Result.COMPACTED


def test_a_living_worker_finds_its_compaction_aborted(
    site: Site, table: Table, metastore_url: str, signs: Path
) -> None:
    """PROTOCOL 5: a paused worker can't name; the row ends at once, and what it writes later goes as well."""
    names, wanted = names_in(Path(table.location)), rows_of(site, table)
    with worker_that_waits(site, table, metastore_url, signs) as (process, entry):
        assert abort(metastore_url, entry) == f"compaction {entry.id} is aborted\n"
        assert site.metastore.entries.queue() == []
        assert go_on(process, signs) in (
            Result.LOST,
            Result.FAILED,
        )  # its staging directory was removed while it waited
    assert rows_of(site, table) == wanted
    assert_aborted(site, table, entry, names)


def test_a_living_worker_ends_its_row_itself(site: Site, table: Table, metastore_url: str, signs: Path) -> None:
    """The aborting process may not touch storage: the worker cleans up, then ends the row."""
    names = names_in(Path(table.location))
    with worker_that_waits(site, table, metastore_url, signs) as (process, entry):
        said = abort(metastore_url, entry, "--set", "compactor.mode=request")
        assert said.startswith(f"compaction {entry.id} is stopped; ")
        assert site.metastore.entries.get(entry.id).state is State.WORKING
        assert go_on(process, signs) is Result.ABORTED
    assert_aborted(site, table, entry, names)


def test_of_a_worker_that_died_the_next_pass_ends_it(site: Site, table: Table, metastore_url: str, signs: Path) -> None:
    """PROTOCOL 6: the next pass repairs a crash between the steps; nothing is queued again."""
    names = names_in(Path(table.location))
    with worker_that_waits(site, table, metastore_url, signs) as (process, entry):
        abort(metastore_url, entry, "--set", "compactor.mode=request")
        process.kill()
        process.join(PATIENCE)
    (made_good,) = repair(site)
    assert (made_good.entry.id, made_good.result) == (entry.id, State.ABORTED)
    assert_aborted(site, table, entry, names)


@pytest.mark.parametrize("step", [Step.REPAIR_ABORTED, Step.REPAIR_HIDDEN])
def test_an_abort_that_dies_between_the_steps(
    step: Step, site: Site, table: Table, metastore_url: str, signs: Path
) -> None:
    names, wanted = names_in(Path(table.location)), rows_of(site, table)
    with worker_that_waits(site, table, metastore_url, signs) as (worker, entry):
        aborter = forked(roles.die_at, roles.abort, metastore_url, step.name)
        aborter.start()
        aborter.join(PATIENCE)
        assert aborter.exitcode == -signal.SIGKILL
        worker.kill()
        worker.join(PATIENCE)
    repair(site)
    assert rows_of(site, table) == wanted
    assert_aborted(site, table, entry, names)
