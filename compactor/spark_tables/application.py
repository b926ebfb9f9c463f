"""The Spark application that a process of a Python data source works for: the JVM of its driver."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from compactor.base.errors import NotSupported

_JVM = "java"


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of this host. ``started`` tells it from a later one with the same id."""

    pid: int
    started: int  #: ticks since the machine was booted

    @property
    def is_alive(self) -> bool:
        found = _stat(self.pid)
        return found is not None and found.started == self.started


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stat:
    name: str
    parent: int
    started: int


def driver() -> Process:
    """Returns the JVM below which this process runs: what plans and commits on a driver's host is its child or grandchild.

    Raises:
        NotSupported: there is none, or this system has no ``/proc`` to find it in.
    """
    pid = os.getpid()
    while pid > 1 and (found := _stat(pid)) is not None:
        if found.name == _JVM:
            return Process(pid=pid, started=found.started)
        pid = found.parent
    raise NotSupported(
        f"process {os.getpid()}: no JVM of a Spark driver was found above it in /proc; hive_acid works in Spark's own "
        "Python processes, on Linux"
    )


def process(pid: int) -> Process:
    """Returns the process that has this id now.

    Raises:
        NotSupported: there is none.
    """
    found = _stat(pid)
    if found is None:
        raise NotSupported(f"process {pid} was not found in /proc")
    return Process(pid=pid, started=found.started)


def _stat(pid: int) -> _Stat | None:
    """Returns what ``/proc/<pid>/stat`` says (proc(5)): fields 2, 4 and 22; the second one may hold blanks and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    if fields[0] in "ZX":  # it has ended, and nobody has asked how
        return None
    return _Stat(name=name, parent=int(fields[1]), started=int(fields[19]))
