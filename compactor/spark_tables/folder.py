"""The private folder of an application's keeper: its socket, its lock and its log."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from compactor.errors import UnsafeDirectory
from compactor.spark_tables.application import Process

_LOGS_KEPT_S = 7 * 86_400  #: of applications that have ended


class Folder:
    """The folder of one application."""

    def __init__(self, application: Process, root: Path | None = None) -> None:
        # /tmp itself, wherever TMPDIR leads: the name of a socket has 107 bytes at most (unix(7))
        self._root = Path(f"/tmp/compactor-keeper-{os.getuid()}") if root is None else root
        self.path = self._root / f"{application.pid}-{application.started}"

    @property
    def socket(self) -> Path:
        return self.path / "socket"

    @property
    def log(self) -> Path:
        return self.path / "keeper.log"

    def make(self) -> None:
        """Makes the folder unless it is there.

        Raises:
            UnsafeDirectory: somebody else has made one of its name, or may enter it.
        """
        for folder in (self._root, self.path):
            with suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            _must_be_ours(folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps every other process from starting or ending a keeper until the block ends."""
        with open(self.path / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def remove_old(self) -> None:
        """Removes the folders of applications that ended long ago."""
        for folder in self._root.iterdir():
            with suppress(ValueError, OSError):
                pid, _, started = folder.name.partition("-")
                is_old = time.time() - folder.stat().st_mtime > _LOGS_KEPT_S
                if is_old and not Process(pid=int(pid), started=int(started)).is_alive:
                    shutil.rmtree(folder)


def _must_be_ours(folder: Path) -> None:
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UnsafeDirectory(
            f"{folder}: wanted a directory of user {os.getuid()} that nobody else may enter; found mode "
            f"{stat.filemode(found.st_mode)} of user {found.st_uid}; remove it, or ask its owner to"
        )
