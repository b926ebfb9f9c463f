"""What stands on the command lines of this machine's processes, for anybody to read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

PAUSE = 0.1  #: seconds between two looks; what is looked for lives for seconds


@contextmanager
def command_lines() -> Iterator[Callable[[], Mapping[str, str]]]:
    """Gives what has been seen so far of what there is while the block runs, each with its process's environment, by which
    ours are told from others of the same machine.
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
    except OSError:  # it has ended meanwhile, or is another user's
        return ""
