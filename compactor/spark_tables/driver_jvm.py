"""Finds the JVM of the Spark driver that a Python process works for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from compactor.base.errors import NotSupported

_JVM = "java"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of this host. ``started`` distinguishes it from a later process with the same id."""

    pid: int
    started: int  #: ticks since the machine was booted

    @property
    def is_alive(self) -> bool:
        stat = _read_stat(self.pid)
        return stat is not None and stat.started == self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    name: str
    parent: int
    started: int


def find_driver() -> Process:
    """Returns the JVM of the driver, an ancestor of this process.

    Processes that plan and commit are its descendants.

    Raises:
        NotSupported: no ancestor is a JVM, or this system has no ``/proc``.
    """
    pid = os.getpid()
    while pid > 1 and (stat := _read_stat(pid)) is not None:
        if stat.name == _JVM:
            return Process(pid=pid, started=stat.started)
        pid = stat.parent
    raise NotSupported(
        f"process {os.getpid()}: no JVM of a Spark driver was found above it in /proc; hive_acid works in Spark's own "
        "Python processes, on Linux"
    )


def find_process(pid: int) -> Process:
    """Returns the process that has this id now.

    Raises:
        NotSupported: no process has it.
    """
    stat = _read_stat(pid)
    if stat is None:
        raise NotSupported(f"process {pid} was not found in /proc")
    return Process(pid=pid, started=stat.started)


def _read_stat(pid: int) -> _Stat | None:
    """Returns fields 2, 4 and 22 of ``/proc/<pid>/stat`` (proc(5)), for example of ``42 (java) S 7 …``.

    The name, in brackets, may itself contain blanks and brackets.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    if fields[0] in "ZX":  # a zombie: it has ended, but its parent has not waited for it
        return None
    return _Stat(name=name, parent=int(fields[1]), started=int(fields[19]))
