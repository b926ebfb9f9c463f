"""Limits the memory of a process, so that a damaged file ends its own unit and not the machine.

The limit is on private, writable memory (``RLIMIT_DATA``). The address space would be the wrong measure, because allocators
and threads reserve much more of it than they use. Arrow's allocator takes memory from the kernel in large pieces, so up to
half of a small limit may stay unused.
"""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)
_KIND = resource.RLIMIT_DATA


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
