"""Builds a ``Listing`` or a ``Tree`` from a store's answers, one per directory or one for all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from types import MappingProxyType

from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import METADATA_FILE, is_skipped, parse_claim
from compactor.acid.tree import Anchor, Tree
from compactor.base.errors import BadFile
from compactor.storage.listing_limits import ListingLimits

SMALL = 64 * 1024  #: bytes that a side file such as ``_metadata_acid`` may have; Hive writes fewer than a hundred


def build_listing_from(
    path: str,
    files: Iterable[tuple[str, int]],
    directories: Iterable[str],
    read: Callable[[str], bytes],
    limits: ListingLimits = ListingLimits(),
) -> Listing:
    """Builds the listing of ``path`` from its files (relative, with lengths) and direct subdirectories.

    Leaves out skipped directories with their content, and skipped names except claims. Reads ``_metadata_acid`` files.

    Raises:
        UnsafeDirectory: there are more files or levels than ``limits`` admit.
        BadFile: a ``_metadata_acid`` is not as Hive writes it.
    """
    kept: list[FileStatus] = []
    tops = {name for name in directories if not is_skipped(name)}
    formats: dict[str, str] = {}
    claims: list[str] = []
    for relative, length in files:
        parents = relative.split("/")[:-1]
        if any(is_skipped(part) for part in parents) or (not parents and is_skipped(relative)):
            if not parents and parse_claim(relative) is not None:
                claims.append(relative)
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
