"""Makes ranges of one file part of another without a copy, on file systems where files share blocks."""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass

_LARGEST_BLOCK = 64 * 1024  #: bytes; NFS calls a block what it transfers at once, such as a megabyte
_CLONE_RANGE = 0x4020940D  #: FICLONERANGE of ioctl_ficlonerange(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRange:
    """A range at ``start`` of the new file.

    Its first ``head`` and last ``tail`` bytes must still be written.

    Those bytes do not fill a block, so they cannot be shared.
    """

    start: int
    head: int
    tail: int


def place_range(position: int, offset: int, length: int, block: int) -> SharedRange:
    """Returns the first place from ``position`` on at which a range's blocks are aligned as in the source."""
    return SharedRange(
        start=position + (offset - position) % block, head=-offset % block, tail=(offset + length) % block
    )


def share_range(source: int, target: int, position: int, offset: int, length: int) -> SharedRange | None:
    """Shares the whole blocks of a range of ``source`` with ``target``, whose bytes end at ``position``.

    Returns:
        The range's place in ``target``; None if it fills no block, or blocks are so large that padding would cost more.

    Raises:
        OSError: nothing was shared; with ``EXDEV`` because the two are in different file systems.
    """
    block = os.fstatvfs(target).f_frsize
    shared = place_range(position, offset, length, block)
    blocks = length - shared.head - shared.tail
    if blocks <= 0 or block > _LARGEST_BLOCK:
        return None
    request = struct.pack("qQQQ", source, offset + shared.head, blocks, shared.start + shared.head)
    fcntl.ioctl(target, _CLONE_RANGE, request)
    return shared
