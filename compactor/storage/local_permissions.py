"""Owner, group, mode and ACL of a local directory, to be applied to others; only ever through descriptors."""

from __future__ import annotations

import logging
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from compactor.base.errors import UnsafeDirectory
from compactor.storage.no_links import LISTED, NEW, NOT_TOUCHED, below, directory, kind_of

log = logging.getLogger(__name__)
_ACCESS = "system.posix_acl_access"
_ACL = (_ACCESS, "system.posix_acl_default")
_OTHERS = 0o077  #: bits of a mode that let others than the owner do something


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPermissions:
    """The permissions of the directory ``path`` when they were read. All methods raise ``OSError``."""

    path: str
    user: int
    group: int
    mode: int
    acl: Mapping[str, bytes]  #: as extended attributes; empty without an ACL, or where the file system has none

    @classmethod
    def of(cls, path: str) -> Self:
        """Reads the permissions of ``path``."""
        with directory(path) as descriptor:
            seen = os.fstat(descriptor)
            acl = _acl(descriptor)
        return cls(path=path, user=seen.st_uid, group=seen.st_gid, mode=stat.S_IMODE(seen.st_mode), acl=acl)

    def apply_below(self, descriptor: int, place: str) -> None:
        """Gives the permissions to everything below an open directory, of which ``place`` is the path.

        Raises:
            UnsafeDirectory: there is something that no attempt wrote: a link, or a file with a second name elsewhere.
        """
        with os.scandir(descriptor) as found:
            entries = list(found)
        for entry in entries:
            path = f"{place}/{entry.name}"
            is_directory = entry.is_dir(follow_symlinks=False)
            if not is_directory and not entry.is_file(follow_symlinks=False):
                kind = kind_of(entry.stat(follow_symlinks=False).st_mode)
                raise UnsafeDirectory(f"{path}: is {kind}; {NOT_TOUCHED}")
            opened = below(descriptor, entry.name, LISTED if is_directory else os.O_RDONLY)
            try:
                if is_directory:
                    self.apply_below(opened, path)
                self.apply_to(opened, path)
            finally:
                os.close(opened)

    def apply_to(self, descriptor: int, path: str) -> None:
        """Sets owner and group of an open file or directory where permitted, its mode (files: without the execute bits)
        and ACLs. A value that it already has is not set again. ``path`` is for messages.

        Raises:
            UnsafeDirectory: it is no directory, and no regular file whose only name this is.
        """
        have = os.fstat(descriptor)
        is_directory = stat.S_ISDIR(have.st_mode)
        if not is_directory and not (stat.S_ISREG(have.st_mode) and have.st_nlink == 1):
            raise UnsafeDirectory(f"{path}: is {kind_of(have.st_mode)} with {have.st_nlink} names; {NOT_TOUCHED}")
        mode = self.mode if is_directory else self.mode & 0o666
        if (self.user, self.group) != (have.st_uid, have.st_gid):
            self._set_owner(descriptor, path)
            have = os.fstat(descriptor)  # a change of owner clears setuid and setgid
        if stat.S_IMODE(have.st_mode) != mode:
            os.fchmod(descriptor, mode)
        for attribute, value in self.acl.items():
            if is_directory or attribute == _ACCESS:
                with suppress(OSError):  # a store that has ACLs but lets nobody set them
                    os.setxattr(descriptor, attribute, value)

    def _set_owner(self, descriptor: int, path: str) -> None:
        try:
            os.fchown(descriptor, self.user, self.group)
        except PermissionError:
            log.warning("%s: owner and group of %s cannot be given to it by this user", path, self.path)


def must_be_private(descriptor: int, place: str) -> None:
    """Checks that an open directory is this process's own and closed to everybody else, so that all in it is of our making.

    Where the answer is no, a file is made there to see which owner and mode this file system gives: some know no owners, or
    know this user under another number.

    Raises:
        UnsafeDirectory: it is another user's, or open to others.
    """
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and not found.st_mode & _OTHERS:
        return
    made = _new_file(descriptor)
    if made is not None and found.st_uid == made.st_uid and (made.st_mode & _OTHERS or not found.st_mode & _OTHERS):
        return
    raise UnsafeDirectory(
        f"{place}: belongs to user {found.st_uid} with mode {stat.S_IMODE(found.st_mode):o}; expected the directory that "
        f"user {os.geteuid()} made there for itself alone; somebody who may write beside it has replaced it, so nothing in "
        "it is used; find out who did"
    )


def _new_file(descriptor: int) -> os.stat_result | None:
    """Returns the status of a new file in an open directory, which is removed again; None if none can be made."""
    name = f".{secrets.token_hex(8)}"
    try:
        made = below(descriptor, name, NEW, 0o600)
    except OSError:
        return None
    try:
        return os.fstat(made)
    finally:
        os.close(made)
        with suppress(OSError):
            os.unlink(name, dir_fd=descriptor)


def _acl(descriptor: int) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for attribute in _ACL:
        try:
            found[attribute] = os.getxattr(descriptor, attribute)
        except OSError:
            continue
    return found
