"""Whose a local directory is and who may use it, to make others like it."""

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
class Model:
    """The directory ``path``, as it was when it was looked at. All methods raise ``OSError``."""

    path: str
    user: int
    group: int
    mode: int
    acl: Mapping[str, bytes]  #: as extended attributes; none where it has none, or the file system knows none

    @classmethod
    def of(cls, path: str) -> Self:
        """Looked at now."""
        seen = os.stat(path)
        return cls(path=path, user=seen.st_uid, group=seen.st_gid, mode=stat.S_IMODE(seen.st_mode), acl=_acl(path))

    def give(self, path: str) -> None:
        """Gives ``path`` owner and group where we may, mode (files: without the execute bits) and ACLs. What it has
        already is not set again."""
        have = os.stat(path)
        is_directory = stat.S_ISDIR(have.st_mode)
        mode = self.mode if is_directory else self.mode & 0o666
        if (self.user, self.group) != (have.st_uid, have.st_gid):
            self._give_owner(path)
            have = os.stat(path)  # a change of owner takes setuid and setgid away
        if stat.S_IMODE(have.st_mode) != mode:
            os.chmod(path, mode)
        for attribute, value in self.acl.items():
            if is_directory or attribute == _ACCESS:
                with suppress(OSError):  # a store that has them and lets nobody set them
                    os.setxattr(path, attribute, value)

    def _give_owner(self, path: str) -> None:
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
