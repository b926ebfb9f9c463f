"""What stands on the command lines of this machine's processes, for anybody to read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PAUSE = 0.1  #: seconds between two looks; what is looked for lives for seconds


@contextmanager
def command_lines() -> Iterator[Callable[[], set[str]]]:
    """Gives what has been seen so far of what there is while the block runs."""
    found: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(PAUSE):
            found.update(list(_now()))

    thread = threading.Thread(target=look, name="command-lines")
    thread.start()
    try:
        yield found.copy
    finally:
        over.set()
        thread.join()


def _now() -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_bytes().replace(b"\0", b" ").decode("utf-8", errors="replace")
        except OSError:  # it has ended meanwhile
            continue
