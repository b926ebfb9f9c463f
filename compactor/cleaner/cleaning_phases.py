"""The phases of one entry in a cleaner's hands. Each adds what its step found out: chosen, listed, viewed, doomed, removed,
swept, checked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, TypeVar

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import Listing
from compactor.compaction.entry import Entry
from compactor.site.quarantine import Kept
from compactor.site.site import Target, View


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """An entry that may be cleaned now."""

    entry: Entry
    target: Target

    def listed(self, listing: Listing) -> Listed:
        return _next(Listed, self, listing=listing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed(Chosen):
    """Its directory has been listed."""

    listing: Listing

    def viewed(self, view: View, obsolete: tuple[str, ...], held: frozenset[str]) -> Viewed:
        return _next(Viewed, self, view=view, obsolete=obsolete, held=held)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Viewed(Listed):
    """``obsolete`` are the names that no reader needs any longer; those in ``held`` stay for now."""

    view: View
    obsolete: tuple[str, ...]
    held: frozenset[str]

    def doomed(self, kept: Kept, names: tuple[str, ...], identities: dict[str, str | None]) -> Doomed:
        return _next(Doomed, self, kept=kept, names=names, identities=identities)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doomed(Viewed):
    """``names`` are to be removed, as long as each is still what ``identities`` says; others are in quarantine."""

    kept: Kept
    names: tuple[str, ...]
    identities: dict[str, str | None]

    def removed(self, freed: int) -> Removed:
        return _next(Removed, self, freed=freed)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Removed(Doomed):
    """They are gone. ``freed`` are the bytes of their files."""

    freed: int

    def swept(self, swept: tuple[str, ...], hidden_left: tuple[str, ...]) -> Swept:
        return _next(Swept, self, swept_names=swept, hidden_left=hidden_left)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swept(Removed):
    """Leftovers of unfinished work are gone, too, except for ``hidden_left``."""

    swept_names: tuple[str, ...]
    hidden_left: tuple[str, ...]

    def checked(self, after: AcidDirectory) -> Checked:
        return _next(Checked, self, after=after)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checked(Swept):
    """``after`` is what a listing shows since."""

    after: AcidDirectory


_Phase = TypeVar("_Phase", bound=Chosen)


def _next(phase: type[_Phase], before: Chosen, **found: Any) -> _Phase:
    names = [field.name for field in fields(phase) if field.name not in found]
    return phase(**{name: getattr(before, name) for name in names}, **found)
