"""Makes the C library keep freed memory for the next file instead of returning it to the kernel.

ORC's encoder allocates some megabytes for each file, however few rows it writes, and glibc returns them after the file.
For tiny files, the kernel took more time to clear the same pages again than decoding and encoding took together.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT_BYTES = 64 * 1024 * 1024  #: the most that a process keeps at the end of its heap
LARGE_BYTES = 32 * 1024 * 1024  #: blocks of this size or more are mapped separately, and returned when they are freed


@cache
def keep_freed_memory() -> None:
    """Sets both thresholds to the values that glibc chooses after a process has freed a large block.

    Values in the environment of the process take precedence. Other C libraries have no such thresholds.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None or {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"} & os.environ.keys():
        return
    mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
    mallopt(_MMAP_THRESHOLD, LARGE_BYTES)
