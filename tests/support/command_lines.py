"""The command lines of this machine's processes, as anybody can read them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PAUSE = 0.1  #: seconds between two looks; the processes looked for live for seconds


@contextmanager
def command_lines() -> Iterator[Callable[[], Mapping[str, str]]]:
    """Yields the command lines seen so far while the block runs, each with its process's environment, by which our
    processes are distinguished from others on the same machine.
    """
    found: dict[str, str] = {}
    over = threading.Event()

    def look() -> None:
        while not over.wait(PAUSE):
            for process in Path("/proc").glob("[0-9]*"):
                line = _text(process / "cmdline")
                if line and not found.get(line):
                    found[line] = _text(process / "environ")

    thread = threading.Thread(target=look, name="command-lines")
    thread.start()
    try:
        yield found.copy
    finally:
        over.set()
        thread.join()


def _text(file: Path) -> str:
    try:
        return file.read_bytes().replace(b"\0", b" ").decode("utf-8", errors="replace")
    except OSError:  # the process has ended meanwhile, or belongs to another user
        return ""
