"""The number of entries and levels that one listing may have (PROTOCOL 11.13)."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.base.errors import UnsafeDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingLimits:
    """``entries`` counts files and directories at all levels, ``depth`` the directories above a file."""

    entries: int = 1_000_000
    depth: int = 64

    def check_entries(self, place: str, number: int) -> None:
        """Raises ``UnsafeDirectory`` if ``number`` entries of ``place`` are too many."""
        if number > self.entries:
            raise UnsafeDirectory(
                f"{place}: has more than {self.entries} files and directories; nothing is done there; find out who wrote "
                "them, and remove what is not the table's, or raise compactor.listing.entries"
            )

    def check_depth(self, place: str, depth: int) -> None:
        """Raises ``UnsafeDirectory`` if ``place``, ``depth`` directories below a location, is too deep."""
        if depth > self.depth:
            shown = place if len(place) <= _SHOWN else f"{place[:_SHOWN]}…"
            raise UnsafeDirectory(
                f"{shown}: is more than {self.depth} directories deep; nothing is done in its table or partition; find "
                "out who made it and remove it, or raise compactor.listing.depth"
            )


_SHOWN = 300  #: characters of a path that is too deep
