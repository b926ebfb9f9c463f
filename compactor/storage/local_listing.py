"""Walks over local directories by descriptors.

Follows no link; refuses special files (PROTOCOL 11.13).
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from types import MappingProxyType

from compactor.acid.listing import FileStatus, Listing
from compactor.acid.names import METADATA_FILE, is_skipped, parse_claim
from compactor.base.errors import BadFile, StorageError, UnsafeDirectory
from compactor.storage.build_listing import ListedButAbsent, ListingLimits, check_is_small, data_format
from compactor.storage.no_links import LISTED, NOT_TOUCHED, below, directory, must_be_regular

_path = attrgetter("path")


def list_once(root: str, limits: ListingLimits) -> Listing:
    """Lists everything below ``root`` once.

    Raises:
        ListedButAbsent: an entry vanished meanwhile.
        BadFile: ``root`` does not exist, or a ``_metadata_acid`` is not as Hive writes it.
        UnsafeDirectory: an entry is neither a regular file nor a directory, or there are too many entries.
        StorageError: a directory cannot be listed.
    """
    walk = _Walk(root=root, limits=limits)
    try:
        with directory(root) as top:
            names = walk.top(top)
    except (FileNotFoundError, NotADirectoryError):
        raise missing(root) from None
    except OSError as error:
        raise _cannot_list(root, error) from error
    walk.files.sort(key=_path)
    return Listing(
        files=tuple(walk.files),
        directories=tuple(sorted(names)),
        data_formats=MappingProxyType(walk.formats),
        claims=tuple(sorted(walk.claims)),
        skipped=tuple(sorted(walk.skipped)),
    )


def missing(path: str) -> BadFile:
    """Returns the error for a location that does not exist."""
    return BadFile(f"directory {path}: the metastore names it and it does not exist; restore it, or drop the partition")


@dataclass(slots=True, kw_only=True)
class _Walk:
    """The results of one walk."""

    root: str
    limits: ListingLimits
    files: list[FileStatus] = field(default_factory=list)
    formats: dict[str, str] = field(default_factory=dict)
    claims: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    seen: int = 0

    def top(self, descriptor: int) -> list[str]:
        """Adds the files in the location itself and below, and returns the names of its directories."""
        names: list[str] = []
        for entry in self._entries(descriptor, self.root):
            name = entry.name
            if is_skipped(name):
                if parse_claim(name) is not None:
                    self.claims.append(name)
                if name.isascii() or _is_text(name):
                    self.skipped.append(name)
                continue
            if not name.isascii():
                _must_be_text(f"{self.root}/{name}")
            if entry.is_dir(follow_symlinks=False):
                names.append(name)
                self._go_below(descriptor, name, name, 1)
            else:
                self.files.append(FileStatus(path=name, length=self._length(entry, name)))
        return names

    def _go_below(self, above: int, name: str, relative: str, depth: int) -> None:
        if depth > self.limits.depth:
            self.limits.check_depth(f"{self.root}/{relative}", depth)
        descriptor, files = self._open_directory(above, name, relative), self.files
        try:
            for entry in self._entries(descriptor, relative):
                name = entry.name
                path = f"{relative}/{name}"
                if not name.isascii():
                    _must_be_text(f"{self.root}/{path}")
                if entry.is_dir(follow_symlinks=False):
                    if not is_skipped(name):
                        self._go_below(descriptor, name, path, depth + 1)
                    continue
                length = self._length(entry, path)
                files.append(FileStatus(path, length))
                if name == METADATA_FILE and depth == 1:
                    self.formats[relative] = self._data_format(descriptor, path, length)
        finally:
            os.close(descriptor)

    def _open_directory(self, above: int, name: str, relative: str) -> int:
        place = f"{self.root}/{relative}"
        try:
            return below(above, name, LISTED)
        except FileNotFoundError:
            raise ListedButAbsent(place) from None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):  # it was a directory a moment ago
                raise UnsafeDirectory(f"{place}: became a link or a file while it was listed; {NOT_TOUCHED}") from None
            raise _cannot_list(place, error) from error

    def _entries(self, descriptor: int, relative: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(descriptor) as entries_on_disk:
                entries = list(islice(entries_on_disk, self.limits.entries - self.seen + 1))
        except OSError as error:
            raise _cannot_list(f"{self.root}/{relative}", error) from error
        self.seen += len(entries)
        if self.seen > self.limits.entries:
            self.limits.check_entries(self.root, self.seen)
        return entries

    def _length(self, entry: os.DirEntry[str], path: str) -> int:
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            raise ListedButAbsent(f"{self.root}/{path}") from None
        except OSError as error:
            raise StorageError(f"cannot measure {self.root}/{path}: {error.strerror or error}") from error
        if not stat.S_ISREG(status.st_mode):
            must_be_regular(f"{self.root}/{path}", status.st_mode)
        return status.st_size

    def _data_format(self, descriptor: int, path: str, length: int) -> str:
        place = f"{self.root}/{path}"
        check_is_small(place, length)
        try:
            opened = below(descriptor, METADATA_FILE, os.O_RDONLY)
        except FileNotFoundError:
            raise ListedButAbsent(place) from None
        except OSError as error:
            raise StorageError(f"cannot read {place}: {error.strerror or error}") from error
        try:
            must_be_regular(place, os.fstat(opened).st_mode)
            return data_format(place, os.pread(opened, length, 0))
        finally:
            os.close(opened)


def children(descriptor: int, place: str, limits: ListingLimits, prefix: str = "") -> tuple[str, ...]:
    """Returns the names in an open directory that begin with ``prefix``, sorted.

    Leaves out names that are not UTF-8, because none of them is ours.

    Raises:
        UnsafeDirectory: there are too many.
    """
    with os.scandir(descriptor) as entries:
        named = (entry.name for entry in entries if entry.name.startswith(prefix))
        names = list(islice(named, limits.entries + 1))
    limits.check_entries(place, len(names))
    return tuple(sorted(name for name in names if name.isascii() or _is_text(name)))


def _must_be_text(path: str) -> None:
    """Raises ``UnsafeDirectory`` if ``path`` is not UTF-8: neither Hive nor a database can hold it."""
    if not _is_text(path):
        raise UnsafeDirectory(
            f"{path}: its name is not UTF-8, so no writer of tables gave it; nothing is done next to it; remove or rename it"
        )


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def remove(above: int, name: str, place: str, limits: ListingLimits, depth: int = 0) -> None:
    """Removes the entry ``name`` of an open directory with everything below it; a link is not followed.

    Entries that vanish meanwhile count as removed.

    Raises:
        UnsafeDirectory: an entry is too deep.
        OSError: something cannot be removed.
    """
    if depth > limits.depth:
        limits.check_depth(place, depth)
    try:
        descriptor = below(above, name, LISTED)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        _unlink(name, above)
        return
    try:
        with os.scandir(descriptor) as entries_on_disk:
            entries = list(entries_on_disk)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                remove(descriptor, entry.name, f"{place}/{entry.name}", limits, depth + 1)
            else:
                _unlink(entry.name, descriptor)
    finally:
        os.close(descriptor)
    try:
        os.rmdir(name, dir_fd=above)
    except FileNotFoundError:
        return


def _unlink(name: str, directory: int) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return


def _cannot_list(path: str, error: OSError) -> StorageError:
    return StorageError(f"cannot list {path}: {error.strerror or error}")
