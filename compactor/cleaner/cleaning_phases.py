"""The phases of an entry that a cleaner works on, from chosen to checked.

Each phase adds the results of one step.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import Listing
from compactor.compaction.queue_entry import Entry
from compactor.site.quarantine import Kept
from compactor.site.site import Target, View


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """An entry that may be cleaned now."""

    entry: Entry
    target: Target

    def listed(self, listing: Listing) -> Listed:
        return _advance(Listed, self, listing=listing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed(Chosen):
    """An entry whose directory has been listed."""

    listing: Listing

    def viewed(self, view: View, obsolete: tuple[str, ...], in_grace: frozenset[str]) -> Viewed:
        return _advance(Viewed, self, view=view, obsolete=obsolete, in_grace=in_grace)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Viewed(Listed):
    """An entry whose view is known.

    ``obsolete`` are the names that no reader needs any longer; the names in ``in_grace`` stay for now.
    """

    view: View
    obsolete: tuple[str, ...]
    in_grace: frozenset[str]

    def doomed(self, kept: Kept, names: tuple[str, ...], identities: dict[str, str | None]) -> Doomed:
        return _advance(Doomed, self, kept=kept, names=names, identities=identities)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doomed(Viewed):
    """An entry whose directories to remove are chosen.

    A name in ``names`` is removed only while its identity is the one in ``identities``. ``kept`` went to quarantine.
    """

    kept: Kept
    names: tuple[str, ...]
    identities: dict[str, str | None]

    def removed(self, freed: int) -> Removed:
        return _advance(Removed, self, freed=freed)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Removed(Doomed):
    """An entry whose directories were removed. ``freed`` are the bytes of their files."""

    freed: int

    def swept(self, swept: tuple[str, ...], hidden_left: tuple[str, ...]) -> Swept:
        return _advance(Swept, self, swept_names=swept, hidden_left=hidden_left)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swept(Removed):
    """An entry whose leftovers of unfinished work were removed as well, except for ``hidden_left``."""

    swept_names: tuple[str, ...]
    hidden_left: tuple[str, ...]

    def checked(self, after: AcidDirectory) -> Checked:
        return _advance(Checked, self, after=after)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checked(Swept):
    """An entry whose directory was listed again. ``after`` is what that listing shows."""

    after: AcidDirectory


_Phase = TypeVar("_Phase", bound=Chosen)


def _advance(phase: type[_Phase], before: Chosen, **additions: Any) -> _Phase:
    """Returns ``before`` in the next phase, with the fields that its step adds."""
    names = [field.name for field in fields(phase) if field.name not in additions]
    return phase(**{name: getattr(before, name) for name in names}, **additions)
