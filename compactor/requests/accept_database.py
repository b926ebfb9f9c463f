"""A person accepts the metastore's database as it is, although more is remembered of it (PROTOCOL 11.2)."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, replace
from typing import Any

from compactor.base.errors import Refused, StorageError
from compactor.base.printable import first_few
from compactor.compaction.mark_comparison import Doubt, Present, Remembered, to_remember
from compactor.initiator.initiator import look_again
from compactor.requests.advance import measure_gap
from compactor.requests.open_writes import OpenWrite, open_writes
from compactor.site.mark_files import MarkFiles
from compactor.site.mode import must_write
from compactor.site.restored_database import judged, restore_claim_token
from compactor.site.site import Site

log = logging.getLogger(__name__)
_FEW = 5  #: directories that a message lists


@dataclass(frozen=True, slots=True, kw_only=True)
class BothSides:
    """The database, what is remembered of it, and the doubt. ``unreadable`` says why the files cannot be read, if so.

    ``written`` are the writes of open and aborted transactions that are on disk: some of them may have committed.
    ``agreed`` is the path of the record of an agreement, None where nothing was changed.
    """

    place: str
    database: Present
    remembered: tuple[Remembered, ...]
    found: Doubt | None
    unreadable: str | None = None
    written: tuple[OpenWrite, ...] = ()
    agreed: str | None = None

    @property
    def is_doubtful(self) -> bool:
        return self.found is not None or self.unreadable is not None

    def to_json(self) -> dict[str, Any]:
        marks = self.database.marks
        return {
            "memory": self.place,
            "database": {
                "newest_transaction": self.database.newest,
                "open_transactions": marks.unfinished,
                "next_lock": marks.next_lock,
                "next_compaction": marks.next_compaction,
                "now": self.database.now_ms,
            },
            "remembered": [file.to_json() for file in self.remembered],
            "doubt": None if self.found is None else self.found.to_json(),
            "unreadable": self.unreadable,
            "open_writes": [one.to_json() for one in self.written],
            "agreed": self.agreed,
        }


def both_sides(site: Site) -> BothSides:
    """Returns the database and what is remembered of it; changes nothing.

    Raises:
        Refused: no memory is configured.
    """
    memory = _memory(site)
    try:
        remembered, now, found = judged(site, memory)
    except StorageError as error:
        now = site.metastore.marks.present(site.name)
        sides = BothSides(place=memory.place, database=now, remembered=(), found=None, unreadable=str(error))
    else:
        sides = BothSides(place=memory.place, database=now, remembered=remembered, found=found)
    return replace(sides, written=open_writes(site)) if sides.is_doubtful else sides


def agree(site: Site, by: str) -> BothSides:
    """Accepts the database as it is: it alone is remembered from now on. Nothing is changed where there is no doubt.

    What was remembered, who agreed and when stay in a file of their own, which is written first.

    Raises:
        Refused: no memory is configured, the mode is observe, or the database never gave the numbers of some directories.
        StorageError: the memory cannot be listed or written.
    """
    must_write(site.settings, f"metastore {site.name}")
    memory, sides = _memory(site), both_sides(site)
    if not sides.is_doubtful:
        return sides
    _must_be_decided(site)
    above = memory.largest_number()
    path = memory.add_agreement(above, uuid.uuid4().hex, {"by": by, "at": sides.database.now_ms, **sides.to_json()})
    restore_claim_token(site)
    claims = site.metastore.claim_token.get_or_make()
    token, now = site.metastore.marks.begin_again(site.name, uuid.uuid4().hex, above=above)
    memory.add(to_remember(None, token, now.marks, claims))
    look_again(site)
    log.warning(
        "metastore %s: %s accepted its database as it is; what was remembered until now is in %s", site.name, by, path
    )
    return BothSides(place=memory.place, database=now, remembered=memory.newest(), found=None, agreed=path)


def _must_be_decided(site: Site) -> None:
    """Checks that no directory has a number that the database never gave (PROTOCOL 11.2).

    Once it has given that number to somebody else, nothing tells any more that the directory is in doubt: its rows would be
    read with those of another transaction, or removed with it.

    Raises:
        Refused: one has.
    """
    gap = measure_gap(site)
    names = [f"{table}: {one.path}" for table, here in gap.found for one in here]
    if names:
        raise Refused(
            f"metastore {site.name}: its database never gave the numbers of {len(names)} directories "
            f"({first_few(names, _FEW, '; ')}), and will give them to other transactions; decide about them with "
            "`compactor metastore advance` first"
        )


def _memory(site: Site) -> MarkFiles:
    if site.memory is None:
        raise Refused(
            f"metastore {site.name}: nothing is remembered of it outside of its database, so there is nothing to agree to; "
            "set compactor.memory, or warehouse"
        )
    return site.memory
