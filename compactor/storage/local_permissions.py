"""Owner, group, mode and ACL of a local directory, to be applied to others."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

log = logging.getLogger(__name__)
_ACCESS = "system.posix_acl_access"
_ACL = (_ACCESS, "system.posix_acl_default")


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
        seen = os.stat(path)
        return cls(path=path, user=seen.st_uid, group=seen.st_gid, mode=stat.S_IMODE(seen.st_mode), acl=_acl(path))

    def apply_to(self, path: str) -> None:
        """Sets owner and group of ``path`` where permitted, its mode (files: without the execute bits) and ACLs. A
        value that it already has is not set again."""
        have = os.stat(path)
        is_directory = stat.S_ISDIR(have.st_mode)
        mode = self.mode if is_directory else self.mode & 0o666
        if (self.user, self.group) != (have.st_uid, have.st_gid):
            self._set_owner(path)
            have = os.stat(path)  # a change of owner clears setuid and setgid
        if stat.S_IMODE(have.st_mode) != mode:
            os.chmod(path, mode)
        for attribute, value in self.acl.items():
            if is_directory or attribute == _ACCESS:
                with suppress(OSError):  # a store that has ACLs but lets nobody set them
                    os.setxattr(path, attribute, value)

    def _set_owner(self, path: str) -> None:
        try:
            os.chown(path, self.user, self.group)
        except PermissionError:
            log.warning("%s: owner and group of %s cannot be given to it by this user", path, self.path)


def _acl(path: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for attribute in _ACL:
        try:
            found[attribute] = os.getxattr(path, attribute)
        except OSError:
            continue
    return found
