"""The length of a file, and a tag that changes when the file is replaced."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """``length`` in bytes.

    ``tag`` changes when the file is replaced, and is None if the store has no tags.
    """

    length: int
    tag: str | None = None
