"""Has the disk begin with what was written while the rest is, so that little is left to wait for once the file is synced."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

PART = 8 * 1024 * 1024  #: bytes that are worth a call
_WRITE = 2  #: of sync_file_range(2): begin to write what is dirty, and wait for nothing


def begin_writeback(descriptor: int, offset: int, length: int) -> bool:
    """Whether the kernel took the hint. It promises nothing, and an error of the disk is left for fsync to tell."""
    call = _call()
    return call is not None and call(descriptor, offset, length, _WRITE) == 0


@cache
def _call() -> Any:
    """The function of the C library; None where it is not Linux'."""
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
    return found
