"""The phases of an entry that a cleaner works on, from chosen to checked; see ``site.entry_group``."""

from __future__ import annotations

from dataclasses import dataclass

from compactor.acid.directory import AcidDirectory
from compactor.acid.listing import Listing
from compactor.compaction.queue_entry import Entry
from compactor.site.entry_group import advance_to
from compactor.site.quarantine import Kept
from compactor.site.site import Target
from compactor.site.view import View
from compactor.state.removals import Removal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chosen:
    """An entry that may be cleaned now."""

    entry: Entry
    target: Target

    def listed(self, listing: Listing) -> Listed:
        return advance_to(Listed, self, listing=listing)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed(Chosen):
    """An entry whose directory has been listed."""

    listing: Listing

    def viewed(self, view: View, obsolete: tuple[str, ...], in_grace: frozenset[str]) -> ViewedForCleaning:
        return advance_to(ViewedForCleaning, self, view=view, obsolete=obsolete, in_grace=in_grace)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ViewedForCleaning(Listed):
    """An entry whose view is known.

    ``obsolete`` are the names that no reader needs any longer; the names in ``in_grace`` stay for now.
    """

    view: View
    obsolete: tuple[str, ...]
    in_grace: frozenset[str]

    def doomed(self, kept: Kept, names: tuple[str, ...], identities: dict[str, str | None]) -> Doomed:
        return advance_to(Doomed, self, kept=kept, names=names, identities=identities)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Doomed(ViewedForCleaning):
    """An entry whose directories to remove are chosen.

    A name in ``names`` is removed only while its identity is the one in ``identities``. ``kept`` went to quarantine.
    """

    kept: Kept
    names: tuple[str, ...]
    identities: dict[str, str | None]

    def removed(self, removal: Removal) -> Removed:
        return advance_to(Removed, self, removal=removal)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Removed(Doomed):
    """An entry whose directories were removed. ``removal`` counts them."""

    removal: Removal

    def swept(self, swept: tuple[str, ...], hidden_left: tuple[str, ...]) -> Swept:
        return advance_to(Swept, self, swept_names=swept, hidden_left=hidden_left)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swept(Removed):
    """An entry whose leftovers of unfinished work were removed as well, except for ``hidden_left``."""

    swept_names: tuple[str, ...]
    hidden_left: tuple[str, ...]

    def checked(self, after: AcidDirectory) -> Checked:
        return advance_to(Checked, self, after=after)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checked(Swept):
    """An entry whose directory was listed again. ``after`` is what that listing shows."""

    after: AcidDirectory
