"""Starts drivers as processes of this machine that outlive their task, and finds them later by name."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

_KIND = "process"
_ENDED = "0"  #: replaces the start time of a process that ended before we could read it


def start(command: Sequence[str], environment: Mapping[str, str], log: Path, *, inherits: Collection[int] = ()) -> str:
    """Starts ``command`` in a session of its own, with the open files ``inherits``.

    Its output is appended to ``log``.

    Returns:
        The process's name ``process:HOST:PID:START``, for example ``process:edge1:4711:1234567``. START is the kernel's
        start time, so that a reused process id is not mistaken for it; 0 if the process has already ended.

    Raises:
        OSError: the process cannot be started, or the log cannot be written.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o640)
    try:
        # Popen would warn later: this process never waits for the child.
        pid = os.posix_spawnp(
            command[0],
            list(command),
            dict(environment),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
                *((os.POSIX_SPAWN_CLOSE, number) for number in _list_inheritable_files() if number not in inherits),
                *((os.POSIX_SPAWN_DUP2, number, number) for number in inherits),
            ],
            setsid=True,
        )
    finally:
        os.close(output)
    return f"{_KIND}:{socket.gethostname()}:{pid}:{_read_start_time(pid) or _ENDED}"


def _list_inheritable_files() -> list[int]:
    """Returns the inheritable open files of this process except the standard ones."""
    numbers = []
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            if number > 2 and os.get_inheritable(number):
                numbers.append(number)
        except OSError:  # the descriptor of the listing, or one that another thread has closed meanwhile
            continue
    return numbers


def reap(name: str) -> int | None:
    """Returns the exit code of an ended process that this one has started.

    Returns None if it is not its child, or runs.
    """
    pid = _parse_pid(name)
    if pid is None:
        return None
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return None
    return os.waitstatus_to_exitcode(status) if ended else None


def is_gone(name: str | None) -> bool:
    """Returns true if ``name`` is a process of this machine that has ended.

    Other names cannot be checked here.
    """
    pid = _parse_pid(name)
    return pid is not None and not _is_alive(name, pid)


def end(name: str | None) -> bool:
    """Asks the process ``name`` and its children to end (SIGTERM), if it is alive on this machine."""
    pid = _parse_pid(name)
    if pid is None or not _is_alive(name, pid):
        return False
    try:
        os.killpg(pid, signal.SIGTERM)
    except ProcessLookupError:
        return False
    return True


def _parse_pid(name: str | None) -> int | None:
    kind, _, rest = (name or "").partition(":")
    host, _, numbers = rest.partition(":")
    if kind != _KIND or host != socket.gethostname():
        return None
    pid = numbers.partition(":")[0]
    return int(pid) if pid.isascii() and pid.isdecimal() else None


def _is_alive(name: str | None, pid: int) -> bool:
    """Returns true if process ``pid`` has the start time in ``name``; a name without a start time is gone."""
    started = (name or "").rpartition(":")[2]
    return started != _ENDED and started == _read_start_time(pid)


def _read_start_time(pid: int) -> str | None:
    """Returns the kernel's start time of a live process; None if it does not exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else fields[19]
