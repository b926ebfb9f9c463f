from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from compactor.launch import driver_processes
from tests.support.patience import until


def test_it_is_found_by_name_until_it_ends(tmp_path: Path) -> None:
    log = tmp_path / "new" / "driver.log"
    name = driver_processes.start(["sh", "-c", "echo $WORD; exec sleep 60"], {**os.environ, "WORD": "hello"}, log)
    kind, host, pid, _ = name.split(":")
    assert (kind, host) == ("process", socket.gethostname())
    until("its word", lambda: log.exists() and log.read_text("utf-8") == "hello\n")
    assert not driver_processes.is_gone(name)
    assert os.getsid(int(pid)) == int(pid)
    assert driver_processes.end(name)
    until("it has ended", lambda: driver_processes.is_gone(name))
    assert not driver_processes.end(name)
    os.waitpid(int(pid), 0)


def test_nothing_of_the_parent_s_files_is_inherited(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import os; print(sorted(os.listdir('/proc/self/fd')), os.readlink('/proc/self/fd/0'))"
    with (tmp_path / "secret").open("w") as secret:
        os.set_inheritable(secret.fileno(), True)
        name = driver_processes.start([sys.executable, "-c", code], dict(os.environ), log)
    until("it has ended", lambda: driver_processes.is_gone(name))
    os.waitpid(int(name.split(":")[2]), 0)
    # the fourth is the listing's own
    assert log.read_text("utf-8") == "['0', '1', '2', '3'] /dev/null\n"


def test_a_reused_process_id_is_another_process() -> None:
    host, pid = socket.gethostname(), os.getpid()
    assert driver_processes.is_gone(f"process:{host}:{pid}:1")
    assert not driver_processes.end(f"process:{host}:{pid}:1")


@pytest.fixture
def later(tmp_path: Path) -> Iterator[int]:
    """A process that leads its own group, as one that was given a driver's id later."""
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process.pid
    process.kill()
    process.wait()


@pytest.mark.parametrize("started", [":0", ":", "", ":None"])
def test_without_a_start_time_it_is_gone(later: int, started: str) -> None:
    """A driver that ended at once had the start time 0, which was every later process's, too: its group got SIGTERM."""
    name = f"process:{socket.gethostname()}:{later}{started}"
    assert driver_processes.is_gone(name)
    assert not driver_processes.end(name)
    os.kill(later, 0)


def test_a_driver_that_ended_at_once_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spawn = os.posix_spawnp

    def spawned(*arguments: object, **options: object) -> int:
        pid = spawn(*arguments, **options)  # type: ignore[arg-type]
        os.waitpid(pid, 0)
        return pid

    monkeypatch.setattr(os, "posix_spawnp", spawned)
    name = driver_processes.start(["true"], dict(os.environ), tmp_path / "log")
    assert name.endswith(":0")
    assert driver_processes.is_gone(name)
    assert not driver_processes.end(name)


@pytest.mark.parametrize("numbers", ["", ":1", "x:1", "-1:1", "0:0", "²:1"])
def test_a_name_without_a_process_id_ends_nothing(numbers: str) -> None:
    assert not driver_processes.end(f"process:{socket.gethostname()}:{numbers}")


def test_processes_of_other_machines_are_not_judged() -> None:
    for name in (None, "application_17_1", "spark:compactor-driver", "process:elsewhere:1:1"):
        assert not driver_processes.is_gone(name)
        assert not driver_processes.end(name)
