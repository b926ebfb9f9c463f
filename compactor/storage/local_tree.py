"""Everything below a directory of a local or mounted file system, without following a link."""

from __future__ import annotations

import os
from collections import Counter

from compactor.acid.names import is_skipped
from compactor.acid.tree import Anchor, Tree
from compactor.storage import file_identity
from compactor.storage.consistent_listing import ListedButAbsent

_NEVER_ENTERED = ".snapshot"  #: where filers show the past, in every directory


def anchor(path: str) -> Anchor:
    """Returns the directory at ``path``, with links to it followed.

    Raises:
        OSError: it is not there, or cannot be looked at.
    """
    real = os.path.realpath(path)
    return Anchor(volume=f"file:{os.stat(real).st_dev}", identity=file_identity.identity(real))


def tree(path: str) -> Tree:
    """Returns everything below ``path``. ``.snapshot`` is never entered.

    Raises:
        OSError: a directory cannot be listed, or ``path`` is none.
        ListedButAbsent: a directory vanished meanwhile, or ``path`` is another one by now.
    """
    before = anchor(path)
    directories: list[str] = []
    links: list[str] = []
    files: Counter[str] = Counter()
    waiting = [""]
    while waiting:
        at = waiting.pop()
        for entry in _entries(path, at):
            relative = f"{at}/{entry.name}" if at else entry.name
            if entry.is_symlink() and not entry.is_file():  # to a directory, or to what is away
                links.append(relative)
            elif entry.is_dir():
                if entry.name != _NEVER_ENTERED:
                    directories.append(relative)
                    waiting.append(relative)
            elif not is_skipped(entry.name):
                files[at] += 1
    if anchor(path) != before:
        raise ListedButAbsent(path)
    return Tree(anchor=before, directories=tuple(sorted(directories)), files=dict(files), links=tuple(sorted(links)))


def _entries(root: str, at: str) -> list[os.DirEntry[str]]:
    place = f"{root}/{at}" if at else root
    try:
        with os.scandir(place) as found:
            return list(found)
    except FileNotFoundError:
        raise ListedButAbsent(place) from None
