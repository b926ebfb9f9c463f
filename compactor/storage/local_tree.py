"""Everything below a directory of a local or mounted file system, without following a link."""

from __future__ import annotations

import os
from collections import Counter

from compactor.acid.names import is_skipped
from compactor.acid.tree import Anchor, Tree
from compactor.storage import file_identity
from compactor.storage.build_listing import ListedButAbsent, ListingLimits
from compactor.storage.no_links import directory

_NEVER_ENTERED = ".snapshot"  #: where filers show the past, in every directory


def anchor(path: str) -> Anchor:
    """Returns the identity of the directory at ``path``.

    If the file system has no handles, the identity is the inode number alone, because the device's number changes with
    each mount of NFS.

    Raises:
        OSError: it does not exist, or cannot be examined.
        UnsafeDirectory: a link is in its path.
    """
    with directory(path) as descriptor:
        status = os.fstat(descriptor)
        identity = file_identity.identity(".", descriptor)
        if identity == f"{status.st_dev}:{status.st_ino}":
            identity = f"inode {status.st_ino}"
        return Anchor(volume=f"file:{status.st_dev}", identity=identity)


def tree(path: str, limits: ListingLimits) -> Tree:
    """Returns everything below ``path``. ``.snapshot`` is never entered.

    Raises:
        OSError: a directory cannot be listed, or ``path`` is not a directory.
        ListedButAbsent: a directory vanished meanwhile, or ``path`` was replaced.
        UnsafeDirectory: a directory became a link meanwhile, or there are too many entries.
    """
    before = anchor(path)
    directories: list[str] = []
    links: list[str] = []
    files: Counter[str] = Counter()
    waiting, seen = [""], 0
    while waiting:
        at = waiting.pop()
        entries = _entries(f"{path}/{at}" if at else path)
        seen += len(entries)
        limits.check_entries(path, seen)
        for entry in entries:
            relative = f"{at}/{entry.name}" if at else entry.name
            if entry.is_symlink():
                links.append(relative)
            elif entry.is_dir(follow_symlinks=False):
                if entry.name != _NEVER_ENTERED:
                    directories.append(relative)
                    waiting.append(relative)
            elif not is_skipped(entry.name):
                files[at] += 1
    if anchor(path) != before:
        raise ListedButAbsent(path)
    return Tree(anchor=before, directories=tuple(sorted(directories)), files=dict(files), links=tuple(sorted(links)))


def _entries(place: str) -> list[os.DirEntry[str]]:
    try:
        with directory(place) as descriptor, os.scandir(descriptor) as entries:
            return list(entries)
    except FileNotFoundError:
        raise ListedButAbsent(place) from None
