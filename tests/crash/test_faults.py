"""One system call below the table fails, once, under the programs of the command line: no row changes.

As a stale mount or a bad disk makes it, by a library for LD_PRELOAD, so below everything that is ours: PROTOCOL 11.9, 11.10.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from compactor.metastore.catalog.values import Table
from compactor.requests.request import request_compaction
from compactor.site.site import Site
from tests.support.passes import age, clean_all, compact, every_role
from tests.support.tables import delete, insert, make_table, rows_of, with_settings
from tests.support.watching import names_in

pytestmark = pytest.mark.whole

_SOURCE = Path(__file__).parents[1] / "support/native/faults.c"
_PROGRAM = "from compactor.cli import main; main()"
_SETTINGS = (
    "hive.txn.opentxn.timeout=1ms",
    "hive.compactor.abortedtxn.threshold=0",
    "hive.compactor.cleaner.retry.retentionTime=1s",
    "compactor.forget.grace=0s",
)
ROLES = {"worker": ("worker", "--once", "--in-process"), "cleaner": ("cleaner", "--once")}
ERRORS = (errno.ENOENT, errno.EIO, errno.ESTALE)
POINTS = int(os.environ.get("TORTURE_FAULTS", "6"))  #: of the calls of one pass


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("faults") / "faults.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", str(made), str(_SOURCE), "-ldl"], check=True)
    return made


@pytest.fixture
def site(deployment: Site) -> Site:
    return with_settings(deployment, hive_txn_opentxn_timeout="1ms", hive_compactor_delta_num_threshold="1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine on which a pass of a role may meet one failing call."""

    url: str
    library: Path
    below: Path

    def run(self, role: str, at: int, failing: int = errno.EIO) -> int:
        """Runs one pass; returns how many calls its longest process made below the table."""
        count = self.below / "../calls"
        count.unlink(missing_ok=True)
        environment = {
            **os.environ,
            "COMPACTOR_METASTORE_URL": self.url,
            "LD_PRELOAD": str(self.library),
            "FAULT_BELOW": str(self.below),
            "FAULT_AT": str(at),
            "FAULT_ERRNO": str(failing),
            "FAULT_COUNT": str(count),
        }
        settings = [part for one in _SETTINGS for part in ("--set", one)]
        command = [sys.executable, "-c", _PROGRAM, *settings, "run", *ROLES[role]]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, done.stderr
        return max(map(int, count.read_text().split()), default=0)


def filled(site: Site, warehouse: Path) -> Table:
    """Creates a table whose request is in the queue."""
    table = make_table(site, warehouse)
    for start in range(0, 30, 10):
        insert(site, table, range(start, start + 10))
    delete(site, table, [3, 14])
    request_compaction(site, table=str(table), type="major")
    return table


def points(total: int) -> Iterator[int]:
    """Yields numbers of calls, spread evenly over a pass."""
    for point in range(POINTS):
        yield 1 + point * (total - 1) // max(POINTS - 1, 1)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("failing", ERRORS, ids=lambda number: errno.errorcode[number])
def test_a_call_that_fails_once_changes_no_row(
    site: Site, warehouse: Path, metastore_url: str, library: Path, failing: int, role: str
) -> None:
    table = filled(site, warehouse)
    machine = Machine(url=metastore_url, library=library, below=Path(table.location))
    wanted = rows_of(site, table)
    if role == "cleaner":
        machine.run("worker", at=0)
    total = machine.run(role, at=0)
    assert total > 20, "the pass was not seen at work"
    clean_all(site)
    for at in points(total):
        insert(site, table, [1000 + at])
        wanted = rows_of(site, table)
        request_compaction(site, table=str(table), type="major")
        if role == "cleaner":
            machine.run("worker", at=0)
        machine.run(role, at, failing)
        assert rows_of(site, table) == wanted, f"call {at} of {total}"
        age(site)
        every_role(site)
        clean_all(site)
        assert rows_of(site, table) == wanted, f"call {at} of {total}, afterwards"
        left = names_in(Path(table.location))
        assert not [name for name in left if name.startswith(".")], f"call {at} of {total}"
        if len(left) > 1:  # the request failed by name, and is asked for again
            compact(site)
            clean_all(site)
        (base,) = names_in(Path(table.location))
        assert base.startswith("base_"), f"call {at} of {total}"
