"""Everything below a directory of HDFS, from the statuses that it lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compactor.acid.names import is_skipped
from compactor.acid.tree import Anchor, Tree

_NEVER_ENTERED = ".snapshot"  #: where a snapshottable directory shows its past


def tree(anchor: Anchor, entries: Callable[[str], Iterable[Mapping[str, Any]]]) -> Tree:
    """Returns everything below the directory ``anchor``; ``entries`` lists one directory, given relative to it."""
    directories: list[str] = []
    links: list[str] = []
    files: Counter[str] = Counter()
    waiting = [""]
    while waiting:
        at = waiting.pop()
        for status in entries(at):
            name = str(status["pathSuffix"])
            relative = f"{at}/{name}" if at else name
            if status["type"] == "SYMLINK":
                links.append(relative)
            elif status["type"] != "DIRECTORY":
                files[at] += not is_skipped(name)
            elif name != _NEVER_ENTERED:
                directories.append(relative)
                waiting.append(relative)
    return Tree(anchor=anchor, directories=tuple(sorted(directories)), files=dict(+files), links=tuple(sorted(links)))
