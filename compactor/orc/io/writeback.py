"""Starts writing data to the disk while a file is being written, so that the final sync has little to do."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

PART = 8 * 1024 * 1024  #: bytes that are worth a call
_WRITE = 2  #: flag of sync_file_range(2): start writing dirty pages, without waiting


def begin_writeback(descriptor: int, offset: int, length: int) -> bool:
    """Asks the kernel to start writing a range to the disk; returns true if it accepts. Errors appear only in fsync."""
    call = _call()
    return call is not None and call(descriptor, offset, length, _WRITE) == 0


@cache
def _call() -> Any:
    """Returns the C library's function; None on systems other than Linux."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint
    return call
