"""Rows that readers see while we compact and clean, at each step and in a loop: the tables of docs/readers.md."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from compactor.base.steps import Step
from compactor.compaction.states import State
from compactor.metastore.transactions.transaction_rows import TxnType
from compactor.site.lost_workers import repair
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.live_hive import HiveError
from tests.support.tables import with_settings
from tests.support.trino import Trino, TrinoError

Answer = tuple[int, ...]  #: count(*), sum(a), sum(length(b))
_PATIENCE = 300.0
_LOCKED_SECONDS = 1.0  #: how long a reader is watched to wait for a lock
#: A query of Trino's that is older than a write ID of a base that is there by now, and one whose file was hidden.
_TOO_OLD = "Not enough history available"
_VANISHED = "does not exist"
#: One that lists a directory, obsolete for it as for everybody, at the moment in which a cleaner removes it.
_REMOVED = "Invalid directory or I/O error occurred for dir: "
#: One that opens a file there, at the same moment; the file's URI ends the message.
_OPENED = "HIVE_CANNOT_OPEN_SPLIT: Error opening Hive split"
#: Hive does not wait for an exclusive lock to read.
_LOCKED = "Unable to acquire read lock due to an existing exclusive lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A table, and what each reader answers about it."""

    beside: Beside
    trino: Trino
    name: str

    def by_hive(self) -> Answer:
        return tuple(map(int, self.beside.hive.sql(self._question(), f"reader of {self.name}")[0].split("\t")))

    def by_trino(self) -> Answer:
        return tuple(self.trino.sql(self._question())[0])

    def by_ours(self) -> Answer:
        """Our reader's answer. What it reads is kept by a transaction of its own, as every reader's is."""
        transactions = self.beside.site.metastore.transactions
        [lease] = transactions.open("somebody", "a-host", type=TxnType.READ_ONLY)
        try:
            table = self.beside.site.metastore.catalog.table("default", self.name)
            rows = [line.split("\t") for _, line in self.beside.lines(table)]
        finally:
            transactions.commit(lease)
        return len(rows), sum(int(a) for a, _ in rows), sum(len(b) for _, b in rows)

    def readers(self) -> dict[str, Callable[[], Answer]]:
        return {"hive": self.by_hive, "trino": self.by_trino, "ours": self.by_ours}

    def look(self) -> dict[str, Answer]:
        return {name: reader() for name, reader in self.readers().items()}

    def _question(self) -> str:
        return f"select count(*), sum(a), sum(length(b)) from {self.name}"


# --- each instant -----------------------------------------------------------------------------------------------------


class Instants(Watched):
    """Roles that die at a step, and what is seen then."""

    def request(self, kind: str) -> None:
        self.beside.ours("--set", "compactor.mode=clean", "compact", f"default.{self.name}", "--type", kind)

    def die(self, step: Step, output: Path, *, readers: str = "any", role: str = "worker") -> None:
        """A role in a process of its own is killed at ``step``."""
        many = ("--set", "compactor.lost.workers=99")  # one request, killed at one step after the other
        command = [*many, "--set", f"compactor.readers={readers}", "run", role, "--once"]
        command += ["--in-process"] if role == "worker" else []
        process = self.beside.process(output, *command, environment={"COMPACTOR_DIE_AT": step.name})
        assert process.wait(_PATIENCE) == -signal.SIGKILL, output.read_text("utf-8")
        if role == "cleaner":  # its time is over at once: others may take its entry
            self.beside.sql('UPDATE "COMPACTION_QUEUE" SET "CQ_CLEANER_START" = 1')

    def time_out(self) -> None:
        """The dead worker's transaction is aborted by Hive, and its locks go before we know of it."""
        [lost] = self.beside.queue(State.WORKING)
        self.beside.hive.sql(f"abort transactions {lost.txn_id}")

    def repair(self) -> None:
        """The dead worker's time is over, and we are the first to see it."""
        [lost] = self.beside.queue(State.WORKING)
        self.beside.sql(f'UPDATE "TXNS" SET "TXN_LAST_HEARTBEAT" = 0 WHERE "TXN_ID" = {lost.txn_id}')
        [repaired] = repair(with_settings(self.beside.site, compactor_lost_workers="99"))
        assert repaired.result is State.INITIATED

    @contextmanager
    def waiting(self) -> Iterator[Future[Answer]]:
        """Trino waits for the dead worker's exclusive lock and answers when it is gone; Hive refuses to wait."""
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(self.by_trino)
            with pytest.raises(HiveError, match=_LOCKED):
                self.by_hive()
            time.sleep(_LOCKED_SECONDS)
            assert not asked.done()
            yield asked


@pytest.fixture
def instants(beside: Beside, trino: Trino) -> Iterator[Instants]:
    """A table with a base and, above it, events for rows of the base and new rows: its minor leaves a pair."""
    made = Instants(beside=beside, trino=trino, name="instants")
    beside.hive.sql(f"create table instants (a int, b string) {TRANSACTIONAL}")
    _insert(trino, "instants", range(10))
    _insert(trino, "instants", range(10, 20))
    made.request("major")
    [done] = beside.work()
    assert done["fate"] == "compacted", done
    _clean(beside)
    _insert(trino, "instants", range(20, 25))
    _insert(trino, "instants", range(25, 30))
    trino.sql("delete from instants where a in (3, 7)")
    yield made
    beside.hive.sql("drop table instants")


_ROWS: Answer = (28, 425, 28 * 8)
_HALF: Answer = (30, 435, 30 * 8)  #: the delta without its delete delta: both deleted rows are back
_RIGHT = {"hive": _ROWS, "trino": _ROWS, "ours": _ROWS}
_TRINO_SEES_HALF = {**_RIGHT, "trino": _HALF}


def test_each_instant_of_a_pair(instants: Instants, tmp_path: Path) -> None:
    """PROTOCOL 5, 6, 7: whoever honours visibility always sees the rows. Trino never meets half of a pair, but for sites
    that say they have no such reader, and where Hive times a lost worker out, until our next pass."""
    output = tmp_path / "said"
    assert instants.look() == _RIGHT
    instants.request("minor")
    instants.die(Step.MANIFEST_WRITTEN, output, readers="visibility")
    assert instants.look() == _RIGHT, "staged"
    instants.time_out()
    instants.die(Step.NAMED_FIRST, output, readers="visibility")
    assert instants.look() == _TRINO_SEES_HALF, "half named, visibility"
    instants.time_out()
    instants.die(Step.NAMED_FIRST, output)
    assert instants.by_ours() == _ROWS, "half named, any"
    with instants.waiting() as asked:
        instants.time_out()
    assert asked.result() == _HALF
    assert instants.look() == _TRINO_SEES_HALF, "half named, aborted by Hive"
    instants.die(Step.NAMED_FIRST, output)
    with instants.waiting() as asked:
        instants.repair()
    assert asked.result() == _ROWS
    assert instants.look() == _RIGHT, "half named, timed out by us"
    instants.die(Step.NAMED, output)
    assert instants.by_ours() == _ROWS, "named, any"
    with instants.waiting() as asked:
        instants.time_out()
    assert asked.result() == _ROWS
    instants.die(Step.COMMITTED, output)
    assert instants.look() == _RIGHT, "committed"
    time.sleep(1.2)
    instants.die(Step.HIDDEN, output, role="cleaner")
    assert instants.look() == _RIGHT, "an obsolete directory is hidden"
    instants.die(Step.REMOVED, output, role="cleaner")
    assert instants.look() == _RIGHT, "removed"
    _clean(instants.beside)
    assert instants.look() == _RIGHT, "cleaned"


def test_each_instant_of_a_base(instants: Instants, tmp_path: Path) -> None:
    """PROTOCOL 5, 6: a base that is named and not committed, or not yet hidden, holds the rows that were there."""
    output = tmp_path / "said"
    instants.request("major")
    instants.die(Step.NAMED, output)
    assert instants.look() == _RIGHT, "named"
    instants.time_out()
    assert instants.look() == _RIGHT, "its transaction is aborted"
    instants.die(Step.REPAIR_HIDDEN, output)
    assert instants.look() == _RIGHT, "hidden by repair"
    [done] = instants.beside.work(repairs=1)
    assert done["fate"] == "compacted", done
    assert instants.look() == _RIGHT, "committed"
    _clean(instants.beside)
    assert instants.look() == _RIGHT, "cleaned"


def test_each_instant_of_a_rebalance(instants: Instants, tmp_path: Path) -> None:
    """PROTOCOL 1.6: its base bears a write ID that is open until the commit, so Trino takes the base before it."""
    output = tmp_path / "said"
    instants.request("rebalance")
    instants.die(Step.NAMED, output)
    assert instants.look() == _RIGHT, "named"
    instants.time_out()
    assert instants.look() == _RIGHT, "its transaction is aborted"
    [done] = instants.beside.work(repairs=1)
    assert done["fate"] == "compacted", done
    assert instants.look() == _RIGHT, "committed"
    _clean(instants.beside)
    assert instants.look() == _RIGHT, "cleaned"


def test_a_rebalance_where_no_base_is(beside: Beside, trino: Trino, tmp_path: Path) -> None:
    """Trino fails from the name to the commit: it finds a base that it must not take, and none that it may."""
    table = Instants(beside=beside, trino=trino, name="no_base")
    beside.hive.sql(f"create table no_base (a int, b string) {TRANSACTIONAL}")
    _insert(trino, "no_base", range(5))
    _insert(trino, "no_base", range(5, 10))
    right = table.by_trino()
    table.request("rebalance")
    table.die(Step.NAMED, tmp_path / "said")
    assert (table.by_hive(), table.by_ours()) == (right, right)
    with pytest.raises(TrinoError, match=_TOO_OLD):
        table.by_trino()
    table.time_out()
    [done] = beside.work(repairs=1)
    assert done["fate"] == "compacted", done
    assert table.look() == dict.fromkeys(table.readers(), right)
    _clean(beside)


# --- in a loop --------------------------------------------------------------------------------------------------------


class Loop(threading.Thread):
    """A reader that asks again and again, and counts the answers."""

    def __init__(self, name: str, ask: Callable[[], Answer]) -> None:
        super().__init__(name=name, daemon=True)
        self._ask = ask
        self._enough = threading.Event()
        self.answers: Counter[Answer] = Counter()
        self.errors: Counter[str] = Counter()

    def run(self) -> None:
        while not self._enough.is_set():
            try:
                self.answers[self._ask()] += 1
            except (TrinoError, HiveError, OSError, AssertionError) as error:
                self.errors[str(error)] += 1

    def stop(self) -> None:
        self._enough.set()
        self.join(_PATIENCE)
        assert not self.is_alive(), f"{self.name} hangs"


@contextmanager
def reading(watched: Watched) -> Iterator[dict[str, Loop]]:
    """All readers in loops; each has answered once before and after what is done in the block."""
    loops = {name: Loop(name, ask) for name, ask in watched.readers().items()}
    for loop in loops.values():
        loop.start()
    try:
        _until_each_answered(loops)
        yield loops
        _until_each_answered(loops)
    finally:
        for loop in loops.values():
            loop.stop()


def _until_each_answered(loops: dict[str, Loop]) -> None:
    before = {name: loop.answers.total() + loop.errors.total() for name, loop in loops.items()}
    deadline = time.monotonic() + _PATIENCE
    while any(loop.answers.total() + loop.errors.total() < before[name] + 2 for name, loop in loops.items()):
        assert time.monotonic() < deadline, {name: loop.answers for name, loop in loops.items()}
        time.sleep(0.02)


def _was_removed(error: str) -> bool:
    """Returns true if Trino failed at a directory or file that a cleaner has removed."""
    if _REMOVED in error:
        return not Path(error.partition(_REMOVED)[2]).exists()
    return _OPENED in error and not Path(error.rpartition("file:")[2].strip()).exists()


@pytest.mark.parametrize("readers", ["any", "visibility"])
def test_readers_in_a_loop(beside: Beside, trino: Trino, tmp_path: Path, readers: str) -> None:
    """PROTOCOL 5, 7: updates that change nothing go on, minors, majors, an aborted one and cleanings too, and every answer
    of Hive, ours and Trino is right, but for what docs/readers.md says; so is every error."""
    name = f"loop_{readers}"
    watched = Instants(beside=beside, trino=trino, name=name)
    settings = ("--set", f"compactor.readers={readers}", "--set", "compactor.lock.wait=3s")
    beside.hive.sql(f"create table {name} (a int, b string) {TRANSACTIONAL}")
    _insert(trino, name, range(40))
    _insert(trino, name, range(40, 80))
    right = watched.by_trino()
    made: list[str] = []

    def compact(kind: str) -> None:
        watched.request(kind)
        [done] = beside.work(*settings)
        assert done["fate"] == "compacted", done
        made.extend(output.partition("_0")[0] for output in done["output"])

    def update(rest: int) -> None:
        trino.sql(f"update {name} set b = b where a % 5 = {rest}")

    with reading(watched) as loops:
        compact("major")
        for turn in range(2):
            update(turn)
            update(turn + 2)
            compact("minor")
            beside.clean()
            update(4)
            compact("major")
            _clean(beside)
        update(1)
        watched.request("major")
        watched.die(Step.NAMED, tmp_path / "said", readers=readers)
        watched.time_out()
        [done] = beside.work(*settings, repairs=1)  # hides what the dead one named, and does it again
        assert done["fate"] == "compacted", done
        _clean(beside)
    assert made.count("base") >= 3
    if readers == "visibility":
        assert made.count("delta") == made.count("delete_delta") == 2
    assert (set(loops["ours"].answers), set(loops["ours"].errors)) == ({right}, set())
    assert set(loops["hive"].answers) == {right}
    locked = [error for error in loops["hive"].errors if _LOCKED in error]
    assert set(loops["hive"].errors) == (set(locked) if readers == "any" else set())
    trinos = loops["trino"]
    unknown = [error for error in trinos.errors if _TOO_OLD not in error and _VANISHED not in error]
    assert [error for error in unknown if not _was_removed(error)] == []
    half = set(trinos.answers) - {right}
    assert all(answer > right for answer in half) if readers == "visibility" else half == set(), trinos.answers
    assert trinos.answers[right] > 10


def _insert(trino: Trino, table: str, keys: range) -> None:
    values = ", ".join(f"({key}, 'text {key % 10:03}')" for key in keys)
    trino.sql(f"insert into {table} values {values}")


def _clean(beside: Beside) -> None:
    beside.clean_all()
