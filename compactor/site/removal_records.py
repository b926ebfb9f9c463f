"""Counts what cleaners remove, and records it in our state for people. No correctness depends on it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from compactor.acid.listing import Listing
from compactor.acid.names import is_skipped_below, known_directory
from compactor.base.errors import CompactorError
from compactor.compaction.queue_entry import Entity
from compactor.site.site import Site
from compactor.state.removals import Cause, Removal

log = logging.getLogger(__name__)


def count_removal(
    entity: Entity, listing: Listing, names: Collection[str], cause: Cause, entry_id: int | None = None
) -> Removal:
    """Counts the directories and files of rows in ``listing`` that are, or are below, one of ``names``.

    Side files such as ``_orc_acid_version`` do not count, since readers do not read them as rows.
    """
    below = (file for file in listing.files if file.path in names or file.path.partition("/")[0] in names)
    files = [file for file in below if not is_skipped_below(file.path)]
    return Removal(
        entity=entity,
        cause=cause,
        entry_id=entry_id,
        directories=sum(known_directory(name) is not None for name in names),
        files=len(files),
        bytes=sum(file.length for file in files),
    )


def record_removals(site: Site, removals: Sequence[Removal]) -> None:
    """Stores what was removed. A failure is only logged: the directories are gone."""
    if site.state is None:
        return
    try:
        site.state.removals.add_all(site.name, removals)
    except CompactorError as error:
        log.warning("the figures of %d removals could not be stored: %s", len(removals), error)
