"""Sixteen processes at each store, some of them killed, and what they did judged by the checker."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compactor.metastore.metastore import Metastore
from tests.support import servers
from tests.support.history.broken import BROKEN
from tests.support.history.checker import anomalies
from tests.support.history.operations import Kind, Operation, dead, recorded
from tests.support.history.workload import opened
from tests.support.patience import PATIENCE
from tests.support.sizes import sized

PROCESSES, FEWER = sized(short=8, whole=16), 8  #: the fewer are enough where something is broken, and sooner at work
ROOT = Path(__file__).parents[2]
TORTURE = int(os.environ.get("TORTURE_SECONDS", "0"))  #: for each store; a history is judged as a whole, so in rounds
ROUND = 20.0 if TORTURE else sized(short=1.0, whole=7.0)
ROUNDS = max(1, int(TORTURE / ROUND))
LIMIT = PATIENCE  #: on a busy machine a run goes on until it has something to say, at most so many seconds
OPERATIONS = 400  #: at least
EVERYTHING = {
    *("open", "snapshot", "allocate", "component", "write", "read", "commit", "abort", "heartbeat", "time_out"),
    *("acquire", "check", "release"),
    *("request", "claim", "record", "committing", "requeue", "finish", "clean", "look"),
}
SEED = os.environ.get("TORTURE_SEED") or (secrets.token_hex(4) if TORTURE else "1")


def run(
    url: str,
    folder: Path,
    seed: str,
    enough: Callable[[list[Operation]], bool],
    *,
    seconds: float = 0.0,
    broken: str = "",
) -> list[Operation]:
    """The history of one run of ``seconds`` and until it is ``enough``."""
    folder.mkdir()
    command = [sys.executable, "-W", "error", "-m", "tests.support.history.run", url, str(folder), str(LIMIT)]
    command += [str(FEWER if broken else PROCESSES), seed, *([broken] if broken else [])]
    with (folder / "said").open("w") as said:
        start = time.monotonic()
        running = subprocess.Popen(
            command, stdout=said, stderr=said, cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, text=True
        )
        try:
            while running.poll() is None and time.monotonic() < start + LIMIT:
                time.sleep(0.5)
                if time.monotonic() > start + seconds and enough(recorded(folder)):
                    (folder / "stop").touch()
                    break
            running.wait(PATIENCE)
        finally:
            running.kill()
            running.wait()
    assert running.returncode == 0, f"seed {seed}: {(folder / 'said').read_text()}"
    return recorded(folder)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_whatever_happens_the_history_is_one_that_may_be(
    number: int, store: str, metastore: Metastore, url: str, tmp_path: Path
) -> None:
    """PROTOCOL 9: snapshots, write ids, locks, claims and commits hold across processes that die at any moment."""
    seconds = min(ROUND, 4.0) if store == "sqlite" and not TORTURE else ROUND
    seed = f"{SEED}/{number}"

    folder = tmp_path / "history"

    def everything_was_done(history: list[Operation]) -> bool:
        # While it runs, an operation without an answer may still get one, unless its process is dead.
        cut_off = any(operation.ended is None and operation.process in dead(folder) for operation in history)
        return cut_off and len(history) > OPERATIONS and {op.name for op in history if op.is_ok} >= EVERYTHING

    history = run(url, folder, seed, everything_was_done, seconds=seconds)
    wrong = anomalies(history, semi_shared=store.endswith("31"))
    assert not wrong, f"seed {seed}: " + "\n".join(map(str, wrong[:5]))
    done = Counter(operation.name for operation in history if operation.is_ok)
    print(
        f"seed {seed}: {len(history)} operations, {sum(op.ended is None for op in history)} cut off; done {dict(done)}"
    )
    assert everything_was_done(history), "that was not enough to say that nothing is wrong"


#: What the checker must find when a guard is taken away; names as in ``BROKEN``.
NOTICED = {
    "claim without its guard": Kind.CLAIMED_TWICE,
    "write ids without the row lock": Kind.DUPLICATE_WRITE_ID,
    "locks without a look at others": Kind.LOCKED_TWICE,
    "commit without the write-conflict check": Kind.BOTH_COMMITTED,
    "snapshot of two reads": Kind.SEES_UNCOMMITTED,
}


def test_every_guard_that_can_be_taken_away_is_missed() -> None:
    assert NOTICED.keys() == BROKEN.keys()


@pytest.fixture(scope="module")
def unguarded(server: Callable[[str], servers.Server]) -> Iterator[str]:
    """A metastore of its own on PostgreSQL, since SQLite lets only one write at a time, guard or not.

    Write IDs are guarded twice, by the counter's row and by a unique index that makes a duplicate an error; here by
    the row alone.
    """
    postgres = server("postgresql")
    url = postgres.make("unguarded", servers.hive_schema("postgresql", "4.0.0"))
    postgres.sql('DROP INDEX "TBL_TO_WRITE_ID_IDX";', "unguarded")
    metastore = opened(url)
    metastore.embedded_catalog.create_database("default", "/warehouse")
    metastore.close()
    yield url
    postgres.drop("unguarded")


@pytest.fixture
def breakable(unguarded: str) -> Iterator[str]:
    """The same as new for each test."""
    rows = servers.Rows(unguarded)
    yield unguarded
    rows.restore()
    rows.close()


@pytest.mark.parametrize("broken", NOTICED)
def test_the_checker_notices_a_guard_that_is_missing(broken: str, breakable: str, tmp_path: Path) -> None:
    def noticed(history: list[Operation]) -> bool:
        return NOTICED[broken] in {anomaly.kind for anomaly in anomalies(history)}

    history = run(breakable, tmp_path / "history", "1", noticed, broken=broken)
    found = Counter(anomaly.kind.name for anomaly in anomalies(history))
    print(len(history), found)
    assert NOTICED[broken].name in found, f"{len(history)} operations; {found}"
