"""Hive writes, compacts and cleans while our three roles do, each in a separate process."""

from __future__ import annotations

import itertools
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

from compactor.compaction.queue_entry import Entry
from compactor.compaction.states import State
from tests.support.beside import TRANSACTIONAL, Beside
from tests.support.live_hive import HiveError

_STATEMENTS = 16  #: of each writer, at least
_PATIENCE = 300.0
_TURN_SECONDS = 0.05  #: in which somebody else gets his turn
_SOON = ("hive.compactor.check.interval=1s", "hive.compactor.cleaner.run.interval=500ms")
#: Jobs of MapReduce keep what row they are at and whether they are done where all jobs of a JVM share it (``IOContextMap``,
#: ``ExecMapper``). With two sessions and its worker beside each other in one JVM Hive alone, without us, was seen to fail
#: and to lose rows in a major of its own. A cluster runs each task in a JVM of its own; here one job runs at a time.
_ONE_JOB = threading.Lock()


class Writer(threading.Thread):
    """A session that inserts, updates and deletes until it is stopped, and knows which rows must exist by then."""

    def __init__(self, beside: Beside, table: str, where: str) -> None:
        super().__init__(name=f"writer of {table}", daemon=True)
        self._beside, self._table, self._where = beside, table, where
        self._enough = threading.Event()
        self._error: BaseException | None = None
        self.statements = 0
        self.rows: dict[int, str] = {}

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                self.write()
        except BaseException as error:  # noqa: BLE001 - told to who stops it
            self._error = error

    def stop(self) -> None:
        self._enough.set()
        self.join(_PATIENCE)
        assert not self.is_alive(), f"{self.name} hangs"
        self.check()

    def check(self) -> None:
        """Raises what a statement failed with."""
        if self._error is not None:
            raise self._error

    def write(self) -> None:
        """The next statement."""
        turn = self.statements
        self.statements += 1
        if turn % 4 == 2:
            self._sql(f"update {self._table} set b = 'turn {turn}' where a % 3 = 0")
            self.rows |= {key: f"turn {turn}" for key in self.rows if key % 3 == 0}
        elif turn % 8 == 7:
            self._sql(f"delete from {self._table} where a % 5 = 0")
            self.rows = {key: value for key, value in self.rows.items() if key % 5}
        else:
            keys = range(turn * 4, turn * 4 + 4)
            values = ", ".join(f"({key}, 'row {key}')" for key in keys)
            self._sql(f"insert into {self._table} {self._where} values {values}")
            self.rows |= {key: f"row {key}" for key in keys}

    def _sql(self, statement: str) -> None:
        with _ONE_JOB:
            self._beside.hive.sql(statement, session=self.name)
        time.sleep(_TURN_SECONDS)


def test_everything_at_once(beside: Beside, tmp_path: Path) -> None:
    """PROTOCOL 1 to 8 under load: at the end the rows are those that were written, and no request is stuck or failed."""
    properties = "'transactional'='true', 'compactorthreshold.hive.compactor.delta.num.threshold'='2'"
    beside.hive.sql(f"create table busy (a int, b string) stored as orc tblproperties({properties})")
    beside.hive.sql(f"create table parted (a int, b string) partitioned by (p string) {TRANSACTIONAL}")
    writers = [Writer(beside, "busy", ""), Writer(beside, "parted", "partition (p='x:y')")]
    for writer in writers:
        writer.write()  # so that the partition is there
        writer.start()
    roles = _Roles(beside, tmp_path)
    try:
        roles.wait_until_running()
        _hives_roles(beside, writers)
    finally:
        codes = roles.stop()
        for writer in writers:
            writer.stop()
    assert codes == [0, 0, 0], roles.said()
    for _ in range(20):
        if not beside.queue():
            break
        beside.work()
        beside.clean()
    assert beside.queue() == []
    beside.rows("busy", [f"{a}\t{b}" for a, b in writers[0].rows.items()])
    beside.rows("parted", [f"{a}\t{b}\tx:y" for a, b in writers[1].rows.items()])
    ours = [entry for entry in _ended(beside) if (entry.worker_version or "").startswith("compactor-")]
    assert {entry.state for entry in ours} <= {State.SUCCEEDED, State.REFUSED}, ours


def _ended(beside: Beside) -> list[Entry]:
    history = beside.site.metastore.entries.history()
    return [entry for entry in history if entry.entity.table in ("busy", "parted")]


def _hives_roles(beside: Beside, writers: list[Writer]) -> None:
    """Hive's initiator, worker and cleaner in turn, with a request by hand each time, until everybody has done
    something and its compactions and ours are cleaned."""
    deadline = time.monotonic() + _PATIENCE
    for turn in itertools.count():
        beside.hive.do("initiator", session="roles")
        with _ONE_JOB:
            with suppress(HiveError):  # somebody was faster, and it is scheduled already
                beside.hive_request("parted", ("major", "minor")[turn % 2], "p='x:y'", session="asking")
            beside.hive.do("worker", session="roles")
        beside.hive.do("cleaner", session="roles")
        succeeded = {entry.worker_version for entry in _ended(beside) if entry.state is State.SUCCEEDED}
        if len(succeeded) == 2 and all(writer.statements >= _STATEMENTS for writer in writers):
            return
        for writer in writers:
            writer.check()
        assert time.monotonic() < deadline, (succeeded, [writer.statements for writer in writers])


class _Roles:
    """Our roles, each in a process."""

    def __init__(self, beside: Beside, folder: Path) -> None:
        commands = (["initiator"], ["worker", "--in-process"], ["cleaner"])
        settings = [part for setting in _SOON for part in ("--set", setting)]
        self._outputs = [folder / command[0] for command in commands]
        self._processes = [
            beside.process(output, *settings, "run", *command)
            for output, command in zip(self._outputs, commands, strict=True)
        ]

    def wait_until_running(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not all(output.stat().st_size for output in self._outputs):
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.1)

    def stop(self) -> list[int]:
        """Their exit codes."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        return [process.wait(_PATIENCE) for process in self._processes]

    def said(self) -> list[str]:
        return [output.read_text("utf-8") for output in self._outputs]
