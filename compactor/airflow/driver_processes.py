"""Drivers as processes of their own on this machine: started so that they outlive the task, and found again by name."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

_KIND = "process"


def start(command: Sequence[str], environment: Mapping[str, str], log: Path) -> str:
    """Starts ``command`` in a session of its own, its output appended to ``log``.

    Returns:
        The name by which it is found again: ``process:HOST:PID:START``, where START is the kernel's start time, so that
        a number that is used anew is not taken for it.

    Raises:
        OSError: it cannot be started, or the log not be written.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        # No Popen: nobody here is ever going to wait for it.
        pid = os.posix_spawnp(
            command[0],
            list(command),
            dict(environment),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
                *((os.POSIX_SPAWN_CLOSE, number) for number in _inherited()),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
    return f"{_KIND}:{socket.gethostname()}:{pid}:{_started(pid) or 0}"


def _inherited() -> list[int]:
    """Open files of this process, but for the standard ones, that a child would have too."""
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2 and os.get_inheritable(number):
                found.append(number)
        except OSError:  # that of the listing, or closed meanwhile by another thread
            continue
    return found


def is_gone(name: str | None) -> bool:
    """True where ``name`` is a process of this machine that has ended; of all others nothing is known here."""
    pid = _pid(name)
    return pid is not None and not _lives(name, pid)


def end(name: str | None) -> bool:
    """Asks the process ``name`` and its children to end (SIGTERM), if it is one of this machine and lives."""
    pid = _pid(name)
    if pid is None or not _lives(name, pid):
        return False
    try:
        os.killpg(pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


def _pid(name: str | None) -> int | None:
    kind, _, rest = (name or "").partition(":")
    host, _, numbers = rest.partition(":")
    if kind != _KIND or host != socket.gethostname():
        return None
    return int(numbers.partition(":")[0])


def _lives(name: str | None, pid: int) -> bool:
    found = _started(pid)
    return found is not None and (name or "").rpartition(":")[2] in (found, "0")


def _started(pid: int) -> str | None:
    """The kernel's start time of a process that lives; None where there is none, or only what its parent has to reap."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
