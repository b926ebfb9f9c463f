"""Settings of a process that rewrites files: memory, garbage collection, allocator, and no pandas.

The limit is on private, writable memory (``RLIMIT_DATA``). The address space would be the wrong measure, because allocators
and threads reserve much more of it than they use. Arrow's allocator takes memory from the kernel in large pieces, so up to
half of a small limit may stay unused.

Planning and rewriting create many objects and hardly any cycles. A worker that looks for them after every 700 new objects
spends a twentieth of its time on that.

Pyarrow imports pandas with its first scalar, which takes longer than many units.

ORC's encoder allocates some megabytes for each file, however few rows it writes, and glibc returns them after the file.
For tiny files, the kernel took more time to clear the same pages again than decoding and encoding took together.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

log = logging.getLogger(__name__)
_KIND = resource.RLIMIT_DATA
_NEW_OBJECTS = 20_000  #: until cycles are looked for
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt(3)
KEPT_BYTES = 64 * 1024 * 1024  #: the most that a process keeps at the end of its heap
LARGE_BYTES = 32 * 1024 * 1024  #: blocks of this size or more are mapped separately, and returned when they are freed


def limit_memory(most: int) -> None:
    """Limits this process to ``most`` bytes from now on; 0 means no limit.

    An allocation beyond the limit raises ``MemoryError``, or a library ends the process. It then leaves no core file, which
    would be as large as the limit.
    """
    if not most:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    _, hard = resource.getrlimit(_KIND)
    try:
        resource.setrlimit(_KIND, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    except (OSError, ValueError) as error:
        log.warning("the memory of this process cannot be limited: %s", error)


def memory_limit() -> int:
    """Returns the limit of this process in bytes, or 0."""
    soft, _ = resource.getrlimit(_KIND)
    return 0 if soft == resource.RLIM_INFINITY else soft


def collect_rarely() -> None:
    """Makes this process look for cycles rarely from now on."""
    gc.set_threshold(_NEW_OBJECTS)


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Looks for cycles rarely until the block ends."""
    before = gc.get_threshold()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _NoPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "pandas":
            raise ModuleNotFoundError("this process runs only units, which do not use pandas", name=fullname)
        return None


def exclude_pandas() -> None:
    """Makes pandas unavailable in this process.

    Only for processes that run nothing but units: others may need it.
    """
    sys.meta_path.insert(0, _NoPandas())


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
