"""The memory that a process may have: what a file describes in spite of all checks ends its own unit, not the machine.

The kernel's limit is that of private, writable memory (``RLIMIT_DATA``). The address space would be the wrong measure:
allocators and threads reserve much more of it than they use. Arrow's allocator takes memory from the kernel in large pieces,
so that up to half of a small limit may stay unused.
"""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)
_KIND = resource.RLIMIT_DATA


def limit_memory(most: int) -> None:
    """Limits this process to ``most`` bytes from now on; 0 is no limit.

    Whoever allocates more gets a ``MemoryError``; libraries that cannot go on end the process, which then leaves no core
    file: it would be as large as the limit.
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
    """Returns the limit of this process in bytes, 0 for none."""
    soft, _ = resource.getrlimit(_KIND)
    return 0 if soft == resource.RLIM_INFINITY else soft
