"""Ranges of one file that become part of another without a copy: XFS and Btrfs let files share their blocks."""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass

_LARGEST_BLOCK = 64 * 1024  #: bytes; NFS says that a block is what it moves at once, such as a megabyte
_CLONE_RANGE = 0x4020940D  #: FICLONERANGE of ioctl_ficlonerange(2)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRange:
    """A range that is at ``start`` of the new file, except for its ``head`` first and ``tail`` last bytes, which do not fill
    a block and are still to be written."""

    start: int
    head: int
    tail: int


def place_of(position: int, offset: int, length: int, block: int) -> SharedRange:
    """Returns the first place from ``position`` on for a range: its blocks must lie as they do in the source."""
    return SharedRange(
        start=position + (offset - position) % block, head=-offset % block, tail=(offset + length) % block
    )


def share_range(source: int, target: int, position: int, offset: int, length: int) -> SharedRange | None:
    """Shares the whole blocks of a range of the descriptor ``source`` with ``target``, whose bytes end at ``position``.

    Returns:
        The range's place in ``target``; None if it fills no block, or blocks are so large that padding would cost more.

    Raises:
        OSError: nothing was shared; with ``EXDEV`` because the two are in different file systems.
    """
    block = os.fstatvfs(target).f_frsize
    found = place_of(position, offset, length, block)
    blocks = length - found.head - found.tail
    if blocks <= 0 or block > _LARGEST_BLOCK:
        return None
    asked = struct.pack("qQQQ", source, offset + found.head, blocks, found.start + found.head)
    fcntl.ioctl(target, _CLONE_RANGE, asked)
    return found
