"""A rename that never replaces its target (PROTOCOL 11.12)."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Callable

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_UNSUPPORTED = {
    errno.EINVAL,
    errno.ENOSYS,
    errno.ENOTSUP,
}  #: a file system (NFS), or a C library, that does not know it


def rename(source: str, target: str) -> None:
    """Renames ``source`` to ``target``, atomically refusing a target that exists.

    Where the file system has no such call (NFS), the target is looked for just before.

    Raises:
        FileExistsError: ``target`` exists.
        OSError: the rename failed otherwise.
    """
    failed = _renameat2(os.fsencode(source), os.fsencode(target))
    if failed in _UNSUPPORTED:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.rename(source, target)
    elif failed:
        raise OSError(failed, os.strerror(failed), source, None, target)


def _renameat2(source: bytes, target: bytes) -> int:
    """Returns the error number of the system call, 0 where it succeeded."""
    call = _system_call()
    if call is None:
        return errno.ENOSYS
    return 0 if call(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_NOREPLACE) == 0 else ctypes.get_errno()


@functools.cache
def _system_call() -> Callable[..., int] | None:
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # another C library than glibc, or another system than Linux
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    found: Callable[..., int] = call
    return found
