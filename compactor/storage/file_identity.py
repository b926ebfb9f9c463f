"""The identity of a file or directory.

A later one under the same name has another identity (PROTOCOL 11.8).
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
from collections.abc import Callable

_MAX_HANDLE = 128
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM}  #: a file system without handles


class _Handle(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint),
        ("type", ctypes.c_int),
        ("bytes", ctypes.c_ubyte * _MAX_HANDLE),
    )


def identity(name: str, directory: int) -> str:
    """Returns the handle of the entry ``name`` of an open directory; a link is not followed.

    A handle holds the inode's generation, because ext4 reuses a freed inode number at once. If a file system has no
    handles, the identity is the device and inode number.

    Raises:
        OSError: nothing is there, or it cannot be looked at.
    """
    handle = _Handle(size=_MAX_HANDLE)
    mount = ctypes.c_int()
    call = _system_call()
    if call is not None:
        if call(directory, os.fsencode(name), ctypes.byref(handle), ctypes.byref(mount), 0) == 0:
            return f"{handle.type}:{bytes(handle.bytes[: handle.size]).hex()}"
        failed = ctypes.get_errno()
        if failed not in _UNSUPPORTED:
            raise OSError(failed, os.strerror(failed), name)
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    return f"{status.st_dev}:{status.st_ino}"


@functools.cache
def _system_call() -> Callable[..., int] | None:
    try:
        call = ctypes.CDLL(None, use_errno=True).name_to_handle_at
    except (AttributeError, OSError):  # another C library than glibc, or another system than Linux
        return None
    call.restype = ctypes.c_int
    handle_call: Callable[..., int] = call
    return handle_call
