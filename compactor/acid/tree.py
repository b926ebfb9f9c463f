"""Everything below a location, at any depth.

It is looked through before the transactions that may have written there are forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from compactor.acid.names import parse_directory, parse_hidden
from compactor.base.errors import BadName


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The directory at a location, with a link to it followed.

    Attributes:
        volume: names the mount, cluster or bucket that it lies on, for as long as it is there.
        identity: what no other directory of the volume shares; None where the store knows no such thing.
    """

    volume: str
    identity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The directories below a location at any depth, relative to it, those included that readers skip.

    Attributes:
        files: the number of files directly in each directory that has any, ``""`` being the location itself; files that
            readers skip do not count.
        links: entries that lead elsewhere, and were not followed.
    """

    anchor: Anchor
    directories: tuple[str, ...] = ()
    files: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    links: tuple[str, ...] = ()

    @property
    def is_bare(self) -> bool:
        """True if there is neither a file nor a base or delta anywhere below."""
        return not self.files and not any(is_or_was_acid(path) for path in self.directories)

    def is_bare_at(self, path: str) -> bool:
        """Returns true if the same holds for the directory ``path`` in it."""
        below = f"{path}/"
        return not any(place == path or place.startswith(below) for place in self.files) and not any(
            is_or_was_acid(place) for place in self.directories if place.startswith(below)
        )


def is_or_was_acid(path: str) -> bool:
    """Returns true if ``path`` ends in the name of a base or delta, or did so before it was hidden."""
    name = final_name(path)
    try:
        return parse_directory(name) is not None
    except BadName:
        return True


def final_name(path: str) -> str:
    """Returns the last name of ``path``, or the one that it had before it was hidden."""
    name = path.rpartition("/")[2]
    hidden = parse_hidden(name)
    return name if hidden is None else hidden.final_name.rpartition("__")[2]
