"""The private folder of a keeper, with its socket, lock and log.

No other user can create a file in it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from compactor.base.errors import UnsafeDirectory
from compactor.base.identities import user_name
from compactor.base.private_files import other_writers
from compactor.spark_tables.driver_jvm import Process

RUNTIME = "XDG_RUNTIME_DIR"
_SHARED = Path("/tmp")  #: not TMPDIR: all processes of an application have to find the same folder
_NAME = "compactor-keeper"
_OTHER_NAMES = 15  #: further names to try if other users have taken the first one
_LOGS_KEPT_S = 7 * 86_400  #: how long the folders of ended applications are kept
_LONGEST_ROOT = 107 - len("/4194304-999999999999/socket")  #: bytes; a socket's path has at most 107 (unix(7))


class Folder:
    """The folder of one application."""

    def __init__(self, application: Process, root: Path | None = None) -> None:
        self._root = find_root() if root is None else root
        self.path = self._root / f"{application.pid}-{application.started}"

    @property
    def socket(self) -> Path:
        return self.path / "socket"

    @property
    def log(self) -> Path:
        return self.path / "keeper.log"

    def make(self) -> None:
        """Creates the folder unless it exists.

        Raises:
            UnsafeDirectory: as ``check``.
        """
        with suppress(FileExistsError):
            self._root.mkdir(mode=0o700)
        check_private(self._root)
        with suppress(FileExistsError):
            self.path.mkdir(mode=0o700)
        _check_level(self.path, is_private=True)

    def check(self) -> None:
        """Checks the folder and every directory above it. Call it before you use any file in it.

        Raises:
            FileNotFoundError: the folder does not exist.
            UnsafeDirectory: another user could create or exchange a file in it, or a directory above it.
        """
        check_private(self._root)
        _check_level(self.path, is_private=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps every other process from starting or ending a keeper until the block ends."""
        with _open_file(self.path / "lock", os.O_WRONLY) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def open_log(self) -> BinaryIO:
        """Returns the log, opened for appending."""
        return _open_file(self.log, os.O_WRONLY | os.O_APPEND)

    def remove_old(self) -> None:
        """Removes the folders of applications that ended long ago."""
        for folder in self._root.iterdir():
            with suppress(ValueError, OSError):
                pid, _, started = folder.name.partition("-")  # for example 4711-1234567
                is_old = time.time() - folder.lstat().st_mtime > _LOGS_KEPT_S
                if is_old and not Process(pid=int(pid), started=int(started)).is_alive:
                    shutil.rmtree(folder)


def find_root() -> Path:
    """Returns the directory for the folders of this user's keepers. It need not exist yet.

    It lies in ``XDG_RUNTIME_DIR`` if only this user can write there, else in ``/tmp``. Another user may have taken the first
    name in ``/tmp``; then the next name counts that this user owns, or else the next free one.
    """
    runtime = Path(os.environ.get(RUNTIME, ""))
    if runtime.is_absolute() and len(os.fsencode(runtime / _NAME)) <= _LONGEST_ROOT and _is_private(runtime):
        return runtime / _NAME
    first = _SHARED.resolve() / f"{_NAME}-{os.geteuid()}"
    names = [first, *(first.with_name(f"{first.name}.{number}") for number in range(1, _OTHER_NAMES + 1))]
    free = (name for name in names if not os.path.lexists(name))
    return next((name for name in names if _is_private(name)), None) or next(free, first)


def check_private(folder: Path) -> None:
    """Checks that only this user can create files in ``folder``, and exchange it or a directory above it.

    Raises:
        FileNotFoundError: the folder does not exist.
        UnsafeDirectory: another user can, or a directory above it is a link.
    """
    for level in (*reversed(folder.parents), folder):
        _check_level(level, is_private=level == folder)


def _is_private(folder: Path) -> bool:
    try:
        check_private(folder)
    except (OSError, UnsafeDirectory):
        return False
    return True


def _check_level(folder: Path, *, is_private: bool) -> None:
    """Checks one directory.

    Its parent is already checked; in a sticky parent, only its owner can exchange it.
    """
    status = folder.lstat()
    mode, user, own = status.st_mode, status.st_uid, os.geteuid()
    if is_private:
        expected = f"a directory of user {user_name(own)} with mode 0700"
        is_safe = stat.S_ISDIR(mode) and user == own and not mode & 0o077
    else:
        expected = f"a directory of root or user {user_name(own)} in which other users cannot exchange a file"
        is_own_name = bool(mode & stat.S_ISVTX) or other_writers(status, folder) is None
        is_safe = stat.S_ISDIR(mode) and user in (0, own) and is_own_name
    if not is_safe:
        raise UnsafeDirectory(
            f"{folder}: expected {expected}; found {stat.filemode(mode)} of user {user_name(user)}. Remove it, "
            f"correct its owner and mode, or set {RUNTIME} to a directory of your own with mode 0700"
        )


def _open_file(path: Path, flags: int) -> BinaryIO:
    return os.fdopen(os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "ab")
