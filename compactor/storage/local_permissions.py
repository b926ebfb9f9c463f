"""Copies owner, group, mode and ACL of a local directory to others, always through descriptors."""

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
from compactor.base.identities import process_user, user_name
from compactor.storage.no_links import LISTED, NEW, NOT_TOUCHED, below, directory, kind_of

log = logging.getLogger(__name__)
_ACCESS = "system.posix_acl_access"
_ACL = (_ACCESS, "system.posix_acl_default")
_OTHERS = 0o077  #: the bits of a mode that permit something to users other than the owner


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalPermissions:
    """The permissions of the directory ``path`` when they were read. All methods raise ``OSError``."""

    path: str
    user: int
    group: int
    mode: int
    acl: Mapping[str, bytes]  #: as extended attributes; empty without an ACL, or where the file system has none

    @classmethod
    def read_from(cls, path: str) -> Self:
        """Reads the permissions of ``path``."""
        with directory(path) as descriptor:
            seen = os.fstat(descriptor)
            acl = _acl(descriptor)
        return cls(path=path, user=seen.st_uid, group=seen.st_gid, mode=stat.S_IMODE(seen.st_mode), acl=acl)

    def apply_below(self, descriptor: int, place: str) -> dict[str, int]:
        """Gives the permissions to everything below the open directory ``place``.

        Returns:
            the length of each file, by its path relative to ``place``.

        Raises:
            UnsafeDirectory: there is an entry that no attempt writes: a link, or a file with a second name elsewhere.
        """
        lengths: dict[str, int] = {}
        with os.scandir(descriptor) as entries_on_disk:
            entries = list(entries_on_disk)
        for entry in entries:
            path = f"{place}/{entry.name}"
            is_directory = entry.is_dir(follow_symlinks=False)
            if not is_directory and not entry.is_file(follow_symlinks=False):
                kind = kind_of(entry.stat(follow_symlinks=False).st_mode)
                raise UnsafeDirectory(f"{path}: is {kind}; {NOT_TOUCHED}")
            opened = below(descriptor, entry.name, LISTED if is_directory else os.O_RDONLY)
            try:
                if is_directory:
                    inside = self.apply_below(opened, path)
                    lengths |= {f"{entry.name}/{name}": length for name, length in inside.items()}
                    self.apply_to(opened, path)
                else:
                    lengths[entry.name] = self.apply_to(opened, path)
            finally:
                os.close(opened)
        return lengths

    def apply_to(self, descriptor: int, path: str) -> int:
        """Sets owner and group of an open file or directory where permitted, its mode and its ACLs.

        A file gets no execute bits. Values that are already right are not set again. ``path`` is for messages.

        Returns:
            the length of the file.

        Raises:
            UnsafeDirectory: it is neither a directory nor a regular file with exactly one name.
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
        return have.st_size

    def _set_owner(self, descriptor: int, path: str) -> None:
        try:
            os.fchown(descriptor, self.user, self.group)
        except PermissionError:
            log.warning("%s: owner and group of %s cannot be given to it by this user", path, self.path)


def must_be_private(descriptor: int, place: str) -> None:
    """Checks that an open directory belongs to this process and is closed to everybody else.

    Some file systems have no owners, or know this user under another number. So if the check fails, a new file in the
    directory shows which owner and mode the file system assigns.

    Raises:
        UnsafeDirectory: it belongs to another user, or is open to others.
    """
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and not status.st_mode & _OTHERS:
        return
    new_file = _new_file(descriptor)
    if (
        new_file is not None
        and status.st_uid == new_file.st_uid
        and (new_file.st_mode & _OTHERS or not status.st_mode & _OTHERS)
    ):
        return
    raise UnsafeDirectory(
        f"{place}: belongs to user {user_name(status.st_uid)} with mode {stat.S_IMODE(status.st_mode):o}; expected the "
        f"directory that user {process_user()} made there for itself alone; somebody who may write next to it has replaced "
        "it, so nothing in it is used; find out who did"
    )


def _new_file(descriptor: int) -> os.stat_result | None:
    """Creates and removes a file in an open directory and returns its status; None if that fails."""
    name = f".{secrets.token_hex(8)}"
    try:
        file = below(descriptor, name, NEW, 0o600)
    except OSError:
        return None
    try:
        return os.fstat(file)
    finally:
        os.close(file)
        with suppress(OSError):
            os.unlink(name, dir_fd=descriptor)


def _acl(descriptor: int) -> dict[str, bytes]:
    acl: dict[str, bytes] = {}
    for attribute in _ACL:
        try:
            acl[attribute] = os.getxattr(descriptor, attribute)
        except OSError:
            continue
    return acl
