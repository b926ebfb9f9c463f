"""The length of a file and what tells its content from what replaces it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStatus:
    """``length`` in bytes; ``tag`` is another one once the file is replaced, None where the store gives none."""

    length: int
    tag: str | None = None
