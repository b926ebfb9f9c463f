"""What the C library does with memory that is freed: kept for the next file, it needs not be asked of the kernel again.

ORC's encoder takes some megabytes for each file however few rows it writes, and glibc gives them back with the file. Where
files are tiny, the kernel's clearing of the same pages again and again took more time than all decoding and encoding.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT_BYTES = 64 * 1024 * 1024  #: that a process keeps at most at the end of its heap
LARGE_BYTES = 32 * 1024 * 1024  #: blocks from here on are mapped for themselves, and go back when they are freed


@cache
def keep_freed_memory() -> None:
    """Sets both bounds to where glibc moves them by itself once a process has freed a large block.

    Who has set them in the environment of the process has the last word; other C libraries have no such bounds.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} & os.environ.keys():
        return
    mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
