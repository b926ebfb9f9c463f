"""Builds a ``Listing`` or a ``Tree`` from a store's answers, one per directory or one for all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import METADATA_FILE, is_skipped, parse_claim
from compactor.acid.tree import Anchor, Tree
from compactor.base.errors import BadFile, StorageError, UnsafeDirectory

SMALL = 64 * 1024  #: bytes that a side file such as ``_metadata_acid`` may have; Hive writes fewer than a hundred
_T = TypeVar("_T")
ATTEMPTS = 10  #: at one listing, if something vanishes each time


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingLimits:
    """``entries`` counts files and directories at all levels, ``depth`` the directories above a file."""

    entries: int = 1_000_000
    depth: int = 64

    def check_entries(self, place: str, number: int) -> None:
        """Raises ``UnsafeDirectory`` if ``number`` entries of ``place`` are too many."""
        if number > self.entries:
            raise UnsafeDirectory(
                f"{place}: has more than {self.entries} files and directories; nothing is done there; find out who wrote "
                "them, and remove what is not the table's, or raise compactor.listing.entries"
            )

    def check_depth(self, place: str, depth: int) -> None:
        """Raises ``UnsafeDirectory`` if ``place``, ``depth`` directories below a location, is too deep."""
        if depth > self.depth:
            shown = place if len(place) <= _SHOWN else f"{place[:_SHOWN]}…"
            raise UnsafeDirectory(
                f"{shown}: is more than {self.depth} directories deep; nothing is done in its table or partition; find "
                "out who made it and remove it, or raise compactor.listing.depth"
            )


def build_listing_from(
    path: str,
    files: Iterable[tuple[str, int]],
    directories: Collection[str],
    read: Callable[[str], bytes],
    limits: ListingLimits = ListingLimits(),
) -> Listing:
    """Builds the listing of ``path`` from its files (relative, with lengths) and direct subdirectories.

    Leaves out the content of skipped directories; of skipped names only those in ``path`` itself are kept. Reads
    ``_metadata_acid`` files.

    Raises:
        UnsafeDirectory: there are more files or levels than ``limits`` admit.
        BadFile: a ``_metadata_acid`` is not as Hive writes it.
    """
    kept: list[FileStatus] = []
    tops = {name for name in directories if not is_skipped(name)}
    formats: dict[str, str] = {}
    claims: list[str] = []
    skipped = {name for name in directories if is_skipped(name)}
    for relative, length in files:
        parents = relative.split("/")[:-1]
        top = parents[0] if parents else relative
        if is_skipped(top):
            skipped.add(top)
            if not parents and parse_claim(relative) is not None:
                claims.append(relative)
            continue
        if any(is_skipped(part) for part in parents):
            continue
        kept.append(FileStatus(path=relative, length=length))
        limits.check_entries(path, len(kept))
        limits.check_depth(f"{path}/{relative}", len(parents))
        if parents:
            tops.add(parents[0])
            if relative == f"{parents[0]}/{METADATA_FILE}":
                check_is_small(f"{path}/{relative}", length)
                formats[parents[0]] = data_format(f"{path}/{relative}", read(f"{path}/{relative}"))
    return Listing(
        files=tuple(sorted(kept, key=lambda f: f.path)),
        directories=tuple(sorted(tops)),
        data_formats=MappingProxyType(formats),
        claims=tuple(sorted(claims)),
        skipped=tuple(sorted(skipped)),
    )


def build_tree_from(anchor: Anchor, keys: Iterable[str]) -> Tree:
    """Builds a tree from an object store's keys, relative to the location.

    A key that ends in ``/`` is a directory.
    """
    directories: set[str] = set()
    files: Counter[str] = Counter()
    for key in keys:
        at, _, name = key.rpartition("/")
        if name and not is_skipped(name):
            files[at] += 1
        while at and at not in directories:
            directories.add(at)
            at = at.rpartition("/")[0]
    return Tree(anchor=anchor, directories=tuple(sorted(directories)), files=dict(files))


def data_format(path: str, content: bytes) -> str:
    """Returns the data format that the ``_metadata_acid`` at ``path`` names.

    Raises:
        BadFile: the file is not as Hive writes it.
    """
    try:
        return str(json.loads(content)["dataFormat"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadFile(f"{path}: expected JSON with a dataFormat as Hive writes it, found none ({error})") from error


def check_is_small(path: str, length: int) -> None:
    """Raises ``BadFile`` if a side file is larger than any that a writer of tables leaves."""
    if length > SMALL:
        raise BadFile(
            f"{path}: has {length} bytes; a file of this name has fewer than {SMALL}; find out who wrote it and remove it"
        )


_SHOWN = 300  #: characters of a path that is too deep


class ListedButAbsent(Exception):
    """A directory lists a name that does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def consistent_listing(path: str, attempt: Callable[[], _T]) -> _T:
    """Returns a listing of ``path`` in which every listed name also exists (PROTOCOL 11.10).

    Somebody may remove a listed name meanwhile, or the store may be wrong for a moment (a stale cache, an unmounted disk
    behind a link). In both cases the listing starts again. It never skips a name.

    Args:
        attempt: lists everything once; raises ``ListedButAbsent``.

    Raises:
        StorageError: the same name is listed again and still does not exist.
    """
    absent = ""
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except ListedButAbsent as error:
            if error.path == absent:
                break
            absent = error.path
    raise StorageError(
        f"{absent}: its directory lists it, and it does not answer; its content would be taken for gone, so nothing "
        f"is done in {path}; check its disk, link or mount, then try again"
    )
