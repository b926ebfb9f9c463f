"""A rename that never replaces its target (PROTOCOL 11.12)."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Callable

_RENAME_NOREPLACE = 1
_UNSUPPORTED = {
    errno.EINVAL,
    errno.ENOSYS,
    errno.ENOTSUP,
}  #: a file system (NFS), or a C library, that does not know it


def rename(source: str, source_directory: int, target: str, target_directory: int) -> None:
    """Renames an entry of an open directory into another one; refuses an existing target in the same step.

    A link itself is renamed. Where the file system lacks the call (NFS), the target is checked just before the rename.

    Raises:
        FileExistsError: ``target`` exists.
        OSError: the rename failed otherwise.
    """
    failed = _renameat2(os.fsencode(source), source_directory, os.fsencode(target), target_directory)
    if failed in _UNSUPPORTED:
        try:
            os.stat(target, dir_fd=target_directory, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(source, target, src_dir_fd=source_directory, dst_dir_fd=target_directory)
            return
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    if failed:
        raise OSError(failed, os.strerror(failed), source, None, target)


def _renameat2(source: bytes, source_directory: int, target: bytes, target_directory: int) -> int:
    """Returns the error number of the system call, 0 if it succeeded."""
    call = _system_call()
    if call is None:
        return errno.ENOSYS
    done = call(source_directory, source, target_directory, target, _RENAME_NOREPLACE)
    return 0 if done == 0 else ctypes.get_errno()


@functools.cache
def _system_call() -> Callable[..., int] | None:
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):  # another C library than glibc, or another system than Linux
        return None
    call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    call.restype = ctypes.c_int
    rename_call: Callable[..., int] = call
    return rename_call
